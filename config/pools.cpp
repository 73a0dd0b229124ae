#include "config/pools.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "config/address.hpp"
#include "config/api_key.hpp"
#include "config/engine.hpp"
#include "config/health.hpp"
#include "config/injection.hpp"
#include "config/values.hpp"

namespace weir::config {
namespace {

constexpr OneOf<Policy, 5> policies{{{{"least_queued_tokens", Policy::least_queued_tokens},
                                      {"round_robin", Policy::round_robin},
                                      {"random", Policy::random},
                                      {"least_requests", Policy::least_requests},
                                      {"power_of_two", Policy::power_of_two}}}};

void read_queue(TableReader& table, Queue& queue) {
  constexpr std::int64_t mib = 1024 * 1024;
  table.read("queue", queue.requests, Whole<std::size_t>{0, 100'000});
  table.read("queue_bytes", queue.bytes, Size{mib, 1024 * 1024 * mib});
  table.read("queue_time", queue.time, &time);
  table.read("queue_time_down", queue.time_down, &time);
  table.read("fair_by", queue.fair_by, &fair_by);
}

/// Reads the pools one after the other and remembers where each name and model was taken.
class PoolReading {
 public:
  PoolReading(const std::vector<Listener>& listeners, const Settings& settings, Report& report)
      : listeners_(listeners), server_(settings.server), measure_(settings.measure), report_(report) {}

  Pool pool(const toml::table& source);
  /// Refuses a replica that has the name that another one's addresses may get.
  void refuse_names_of_expanded();

  Health health;         ///< [health] of the file: what a pool does not set itself.
  EngineReading engine;  ///< [engine] of the file, likewise.

 private:
  Replica replica(const toml::table& source, Places& urls_of_pool);
  void read_models(TableReader& table, const toml::table& source, Pool& pool);
  void read_key(TableReader& table, Replica& replica);
  void read_expand(TableReader& table, Replica& replica);

  const std::vector<Listener>& listeners_;
  const Server& server_;
  const Measure& measure_;
  Report& report_;
  Places pool_names_, replica_names_, expanded_;
  std::map<std::string, const toml::table*, std::less<>> models_;  ///< It maps a model to the pool that has it.
  const toml::table* takes_any_ = nullptr;                         ///< It is the pool that takes any model.
};

Pool PoolReading::pool(const toml::table& source) {
  Pool pool;
  TableReader table("[[pool]]", source, report_);
  if (const auto* node = table.require("name", pool.name, &name, "metrics and log need it, such as name = \"chat\"")) {
    table.refuse_taken("name", *node, pool.name, pool_names_, "names are unique in the file");
  }
  read_models(table, source, pool);
  table.read("policy", pool.policy, policies);
  table.read("decode_weight", pool.decode_weight, Number{0, 1000});
  table.read("max_in_flight", pool.max_in_flight, Whole<std::uint32_t>{1, 1'000'000});
  table.read("max_queued_tokens", pool.max_queued_tokens, Whole<std::uint64_t>{1, 1'000'000'000'000});
  read_queue(table, pool.queue);
  pool.health = read_health({"[pool.health]", table.table("health"), report_}, health);
  pool.engine = read_pool_engine({"[pool.engine]", table.table("engine"), report_}, engine);

  Places urls;
  for (const auto* one : table.tables("replica")) pool.replicas.push_back(replica(*one, urls));
  const auto* replicas = source.get("replica");
  if (!replicas || (replicas->is_array() && replicas->as_array()->empty())) {
    table.blame_table("has no replica; add a [[pool.replica]] with name and url below it");
  }
  table.refuse_the_rest();
  return pool;
}

void PoolReading::read_models(TableReader& table, const toml::table& source, Pool& pool) {
  if (takes_any_) {
    table.blame_table("can never be chosen: the pool " + in_line(*takes_any_) +
                      " takes any model and is tried first; put that one last, or give it models");
  }
  const auto* list = table.read_list("models", Text{256}, [&](const toml::node& node, std::string model) {
    const auto* owner = models_.try_emplace(model, &source).first->second;
    const bool twice = std::find(pool.models.begin(), pool.models.end(), model) != pool.models.end();
    if (owner != &source) {
      table.blame("models", node,
                  "never comes here: the pool " + in_line(*owner) +
                      " has this model and is tried first; remove it from one of them");
    } else if (twice) {
      table.blame("models", node, "is in this list twice; remove one");
    }
    pool.models.push_back(std::move(model));
  });
  const bool any = !list || (list->is_array() && list->as_array()->empty());
  if (any && !takes_any_) takes_any_ = &source;
}

Replica PoolReading::replica(const toml::table& source, Places& urls_of_pool) {
  Replica replica;
  TableReader table("[[pool.replica]]", source, report_);
  if (const auto* node =
          table.require("name", replica.name, &name, "metrics and log need it, such as name = \"gpu0\"")) {
    table.refuse_taken("name", *node, replica.name, replica_names_, "names are unique in the file");
  }
  if (const auto* node = table.require("url", replica.url, &replica_url,
                                       "say where it listens, such as url = \"http://127.0.0.1:8001\"")) {
    const auto place = replica.url.host + ' ' + std::to_string(replica.url.port) + replica.url.prefix;
    table.refuse_taken("url", *node, place, urls_of_pool, "one replica under two names would get twice its share");
    for (const auto& listener : listeners_) {
      if (!leads_to(replica.url, listener.address)) continue;
      table.blame("url", *node,
                  "is weir itself, which has \"" + to_text(listener.address) + "\" as " + listener.table +
                      " listen; give the replica's own port, or let weir listen on another");
    }
  }
  read_expand(table, replica);
  table.read("config", replica.config, Text{128});
  if (!table.has("config")) replica.config = replica.name;
  table.read("gpu", replica.gpu, Text{128, true});
  read_key(table, replica);
  table.read("weight", replica.weight, Number{0.001, 1000});
  table.read("cost_per_hour", replica.cost_per_hour, Number{0, 1'000'000});
  table.read("kv_tokens", replica.kv_tokens, Whole<std::uint64_t>{1, 1'000'000'000'000});
  table.read("max_context", replica.max_context, Whole<std::uint64_t>{1, 1'000'000'000'000});
  table.read("max_in_flight", replica.max_in_flight, Whole<std::uint32_t>{1, 1'000'000});
  table.read("max_queued_tokens", replica.max_queued_tokens, Whole<std::uint64_t>{1, 1'000'000'000'000});
  table.read("inject_usage", replica.inject_usage, &flag);
  const auto* continuous = table.read("inject_continuous_usage", replica.inject_continuous_usage, &flag);
  if (continuous && *replica.inject_continuous_usage && !injects_usage(measure_, replica)) {
    table.blame("inject_continuous_usage", *continuous,
                std::string("asks for usage on every chunk, but inject_usage = false ") +
                    (replica.inject_usage ? "of this replica" : "of [measure]") +
                    " says not to ask for usage; set inject_usage = true here, or leave this out");
  }
  table.refuse_the_rest();
  return replica;
}

void PoolReading::read_expand(TableReader& table, Replica& replica) {
  const auto* expand = table.read("expand", replica.expand, &flag);
  if (!expand || !replica.expand) return;
  expanded_.emplace(replica.name, expand);
  if (is_numeric(replica.url.host))
    table.blame("expand", *expand,
                "makes a replica of each address of the url's host, and \"" + replica.url.host +
                    "\" is an address; give the url a host's name, or leave this out");
}

void PoolReading::refuse_names_of_expanded() {
  for (const auto& [name, place] : replica_names_) {
    const auto dash = name.rfind('-');
    if (dash == std::string::npos) continue;
    const auto number = std::string_view(name).substr(dash + 1);
    const auto found = expanded_.find(std::string_view(name).substr(0, dash));
    const bool is_number = !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
    if (found == expanded_.end() || !is_number) continue;
    report_.add(place->source().begin, "[[pool.replica]] name = \"" + name + "\": is a name for an address of \"" +
                                           found->first + "\", which has expand = true " + in_line(*found->second) +
                                           "; rename one of them");
  }
}

void PoolReading::read_key(TableReader& table, Replica& replica) {
  const auto* written = table.read_secret("api_key", replica.api_key, &api_key);
  const auto* in_file = table.read_secret("api_key_file", replica.api_key, &api_key_file);
  if (table.has("api_key") && in_file) {
    table.blame_secret("api_key_file", *in_file,
                       "api_key is set as well, and a replica has one key; remove one of them");
  }
  if (server_.open || !(written || in_file)) return;
  for (const auto& listener : listeners_) {
    if (listener.table != "[server]" || is_loopback(listener.address.host)) continue;
    const auto where = listener.written ? ' ' + in_line(*listener.written) : std::string();
    table.blame_secret(written ? "api_key" : "api_key_file", written ? *written : *in_file,
                       "would be used for everyone who reaches \"" + to_text(listener.address) +
                           "\", which is [server] listen" + where +
                           ", for weir has no keys of its own yet; listen on a loopback address such as "
                           "\"127.0.0.1:8080\", or write open = true in [server] if everyone may use this replica");
    return;
  }
}

}  // namespace

std::vector<Pool> read_pools(TableReader& file, const std::vector<Listener>& listeners, Settings& settings,
                             Report& report) {
  std::vector<Pool> pools;
  PoolReading reading(listeners, settings, report);
  reading.health = read_health({"[health]", file.table("health"), report}, {});
  reading.engine = read_engine(file.table("engine"), report, settings.engine_names);
  for (const auto* source : file.tables("pool")) pools.push_back(reading.pool(*source));
  reading.refuse_names_of_expanded();
  return pools;
}

}  // namespace weir::config

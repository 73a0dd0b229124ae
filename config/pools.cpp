#include "config/pools.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "config/engine.hpp"
#include "config/health.hpp"
#include "config/policy_words.hpp"
#include "config/values.hpp"

namespace weir::config {
namespace {

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
  PoolReading(ReplicaReading& replicas, const Defaults& defaults, Report& report)
      : replicas_(replicas), defaults_(defaults), report_(report) {}

  Pool pool(const toml::table& source);

 private:
  void read_models(TableReader& table, const toml::table& source, Pool& pool);
  void read_prefix(TableReader& table, Pool& pool) const;

  ReplicaReading& replicas_;
  const Defaults& defaults_;
  Report& report_;
  Places names_;
  std::map<std::string, const toml::table*, std::less<>> models_;  ///< Maps a model to the pool that has it.
  const toml::table* takes_any_ = nullptr;                         ///< The pool that takes any model.
};

Pool PoolReading::pool(const toml::table& source) {
  Pool pool;
  TableReader table("[[pool]]", source, report_);
  if (const auto* node = table.require("name", pool.name, &name, "metrics and log need it, such as name = \"chat\"")) {
    table.refuse_taken("name", *node, pool.name, names_, "names are unique in the file");
  }
  read_models(table, source, pool);
  table.read("policy", pool.policy, OneOf<Policy, policy_words.size()>{policy_words});
  table.refuse_gone("decode_weight",
                    "remove it: least_queued_tokens weighs seconds, which it learns from the replicas' answers");
  read_prefix(table, pool);
  table.read("max_in_flight", pool.max_in_flight, Whole<std::uint32_t>{1, 1'000'000});
  table.read("max_queued_tokens", pool.max_queued_tokens, Whole<std::uint64_t>{1, 1'000'000'000'000});
  read_queue(table, pool.queue);
  table.read("keep_alive", pool.keep_alive, &time);
  table.read_list("session", &session_by, [&](const toml::node& node, SessionBy by) {
    if (by.what == SessionBy::What::key && !defaults_.clients_have_keys)
      table.blame("session", node, "clients have no keys; set server.api_keys, or name a header or a member");
    else
      pool.session.push_back(std::move(by));
  });
  pool.health = read_health({"[pool.health]", table.table("health"), report_}, defaults_.health);
  pool.engine = read_pool_engine({"[pool.engine]", table.table("engine"), report_}, defaults_.engine);

  Places urls;
  for (const auto* one : table.tables("replica"))
    pool.replicas.push_back(replicas_.replica("[[pool.replica]]", *one, urls));
  const auto* replicas = source.get("replica");
  if (!replicas || (replicas->is_array() && replicas->as_array()->empty())) {
    table.blame_table("has no replica; add a [[pool.replica]] with name and url below it");
  }
  table.refuse_the_rest();
  return pool;
}

void PoolReading::read_prefix(TableReader& table, Pool& pool) const {
  table.read("prefix_aware", pool.prefix_aware, &flag);
  pool.prefix_isolation = defaults_.clients_have_keys ? PrefixIsolation::key : PrefixIsolation::none;
  const auto* const node =
      table.read("prefix_isolation", pool.prefix_isolation,
                 OneOf<PrefixIsolation, prefix_isolation_words.size()>{prefix_isolation_words});
  if (node == nullptr || pool.prefix_isolation != PrefixIsolation::key || defaults_.clients_have_keys) return;
  table.blame("prefix_isolation", *node,
              "clients have no keys by which to keep them apart; set server.api_keys, or \"none\"");
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

}  // namespace

std::vector<Pool> read_pools(TableReader& file, ReplicaReading& replicas, const Defaults& defaults, Report& report) {
  std::vector<Pool> pools;
  PoolReading reading(replicas, defaults, report);
  for (const auto* source : file.tables("pool")) pools.push_back(reading.pool(*source));
  return pools;
}

}  // namespace weir::config

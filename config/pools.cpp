#include "config/pools.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "config/health.hpp"
#include "config/policy_words.hpp"
#include "config/values.hpp"

namespace weir::config {
namespace {

void read_queue(TableReader& table, Queue& queue) {
  table.read("queue", queue.requests, Whole<std::size_t>{0, 100'000},
             "The most requests that wait for a replica; each holds its body and 3 kB. Beyond it, and beyond 256 "
             "MiB of bodies: 429, for the newest request of the client that has most waiting. `0`: nobody waits.");
  table.read("queue_time", queue.time, time,
             "The longest that a request waits. weir refuses it at once if it would surely wait longer.");
  table.read("queue_time_down", queue.time_down, time,
             "The longest that it waits while no replica is up. The default covers the restart of an engine.");
  table.read("fair_by", queue.fair_by, fair_by,
             "Who gets an equal share of tokens while requests wait. `\"key\"`: the client's key with its `share`; "
             "without keys its address. `\"address\"`: its address (of IPv6 its /64). A header: whoever sends the same "
             "value, such as `\"header:authorization\"` behind a gateway that checks credentials.");
}

/// Reads the pools one after the other and remembers where each name and model was taken.
class PoolReading {
 public:
  PoolReading(ReplicaReading& replicas, const Defaults& defaults, Report& report)
      : replicas_(replicas), defaults_(defaults), report_(report) {}

  /// What the table does not set is as in `otherwise`.
  Pool pool(const toml::table& source, Pool otherwise);

 private:
  void read_models(TableReader& table, const toml::table& source, Pool& pool);

  ReplicaReading& replicas_;
  const Defaults& defaults_;
  Report& report_;
  Places names_;
  std::map<std::string, const toml::table*, std::less<>> models_;  ///< Maps a model to the pool that has it.
  const toml::table* takes_any_ = nullptr;                         ///< The pool that takes any model.
};

Pool PoolReading::pool(const toml::table& source, Pool pool) {
  TableReader table("[[pool]]", source, report_);
  table.read_name(pool.name, name, names_, "metrics and log need it, such as name = \"chat\"",
                  "The pool in metrics and log. Unique in the file.");
  read_models(table, source, pool);
  table.read("policy", pool.policy, OneOf<Policy, policy_words.size()>{policy_words},
             "How a replica is chosen. `\"least_queued_tokens\"` minimises [predicted "
             "seconds](../explain/balancing.md), learned from the replicas' answers.");
  table.read("prefix_aware", pool.prefix_aware, flag,
             "With `least_queued_tokens`, prompt tokens that a replica has computed before cost nothing there, so "
             "conversations and shared system prompts go where their prefix is cached. With `server.api_keys` a client "
             "profits from its own key's prompts alone, and so learns nothing of others'. `false` for engines without "
             "a prefix cache.");
  pool.prefix_isolation = defaults_.clients_have_keys ? PrefixIsolation::key : PrefixIsolation::none;
  table.read("max_in_flight", pool.max_in_flight, Whole<std::uint32_t>{1, 1'000'000},
             "The most requests that the pool has with its replicas at a time. Others wait.");
  table.read("max_queued_tokens", pool.max_queued_tokens, Whole<std::uint64_t>{1, 1'000'000'000'000},
             "The most estimated prompt tokens that wait in the pool's replicas for their first token. Others wait "
             "in weir, which is fair, where an engine's own queue is not.");
  read_queue(table, pool.queue);
  table.read("keep_alive", pool.keep_alive, time,
             "A client that asked for a stream gets a comment after so much silence, also before its answer begins: "
             "weir then answers 200 by itself. Set it where a load balancer cuts silent streams. Without it only a "
             "stream whose head was sent gets comments, after 15 s.");
  table.read_list(
      "session", pool.session, session_by,
      [&](const toml::node& node, SessionBy by) {
        if (by.what == SessionBy::What::key && !defaults_.clients_have_keys)
          table.blame("session", node, "clients have no keys; set server.api_keys, or name a header or a member");
        else
          pool.session.push_back(std::move(by));
      },
      "Requests of a session go to one replica. The first of the list that a request has tells its "
      "session: `\"header:NAME\"`, `\"body:MEMBER\"` (`user`, `session_id`, `safety_identifier` or "
      "`prompt_cache_key`), or `\"key\"`. A session moves on while its replica is ejected, "
      "down, full or overloaded: [guide](../guides/affinity.md).");
  pool.health = read_health(
      {"[pool.health]", table.table("health", "What the pool has in place of `[health]`."), report_}, pool.health);
  pool.engine =
      read_engine({"[pool.engine]", table.table("engine", "What the pool has in place of `[engine]`."), report_},
                  pool.health, pool.engine);

  Places urls;
  for (const auto* one :
       table.tables("replica", About("An inference server, under the `[[pool]]` that it belongs to. At least "
                                     "one.",
                                     true)))
    pool.replicas.push_back(replicas_.replica("[[pool.replica]]", *one, urls));
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
  const auto* list = table.read_list(
      "models", pool.models, Text{256},
      [&](const toml::node& node, std::string model) {
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
      },
      "Models that it serves, as clients write them in `model`. Empty: any. Within "
      "the pool, replicas that list the model at `/v1/models` come first.");
  const bool any = !list || (list->is_array() && list->as_array()->empty());
  if (any && !takes_any_) takes_any_ = &source;
}

}  // namespace

std::vector<Pool> read_pools(TableReader& file, ReplicaReading& replicas, const Defaults& defaults, Report& report) {
  std::vector<Pool> pools;
  PoolReading reading(replicas, defaults, report);
  constexpr About about(
      "Replicas that can answer the same requests; at least one pool. A request goes to the first pool of the file "
      "that has its model, so a pool that takes any model comes last, and no model is in two pools.",
      true);
  Pool usual;
  usual.health = defaults.health;
  usual.engine = defaults.engine;
  for (const auto* source : file.tables("pool", about)) pools.push_back(reading.pool(*source, usual));
  return pools;
}

void list_pools(const std::vector<Pool>& pools, ReplicaReading& replicas, Report& report) {
  const Defaults none;
  PoolReading reading(replicas, none, report);
  for (const auto& pool : pools) {
    report.listing()->push_back({"pool " + pool.name, "", {}});
    reading.pool(no_table, pool);
    for (const auto& replica : pool.replicas) replicas.list(replica, "pool " + pool.name);
  }
}

}  // namespace weir::config

#include "config/pools.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "config/address.hpp"
#include "config/tls.hpp"
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

Replica ReplicaReading::replica(const std::string& title, const toml::table& source, Places& urls, Replica replica) {
  TableReader table(title, source, report_);
  if (table.read_name(replica.name, name, names_, "metrics and log need it, such as name = \"gpu0\"",
                      "The replica in metrics, log and `x-weir-replica`. Unique in the file."))
    titles_.emplace(replica.name, title);
  if (const auto* node = table.require("url", replica.url, replica_url,
                                       "say where it listens, such as url = \"http://127.0.0.1:8001\"",
                                       "`http://HOST[:PORT][/PREFIX]`, the same with `https://`, or `unix:/PATH`. "
                                       "The prefix is put before the path of every request, so a url does not end in "
                                       "`/v1`. No user name, no query.")) {
    const auto place =
        replica.url.host + ' ' + std::to_string(replica.url.port) + replica.url.prefix + replica.url.unix_path;
    table.refuse_taken("url", *node, place, urls, "one replica under two names would get twice its share");
    for (const auto& listener : listeners_) {
      if (!leads_to(replica.url, listener.address)) continue;
      table.blame("url", *node,
                  "is weir itself, which has \"" + to_text(listener.address) + "\" as " + listener.table +
                      " listen; give the replica's own port, or let weir listen on another");
    }
  }
  read_replica_tls(table, title, replica, report_);
  read_expand(table, replica);
  table.read("config", replica.config, Text{128},
             "Name of the configuration for comparisons, such as `\"vllm-fp8\"`: replicas with the same text are one "
             "configuration, of which step times are learned together. Without it: the name. A label in metrics, so "
             "keep to few texts.");
  if (!table.has("config")) replica.config = replica.name;
  table.read("gpu", replica.gpu, Text{128, true}, "A text for people who read the metrics.");
  read_key(table, replica);
  table.read("weight", replica.weight, Number{0.001, 1000},
             "A preference: predicted seconds, or counts of requests, are divided by it. No share of the traffic: "
             "for a share use a [rollout](#rollout). A faster replica needs no weight, its times are learned.");
  table.read("cost_per_hour", replica.cost_per_hour, Number{0, 1'000'000},
             "Price in any currency, for the costs that `weir compare --config` reports.");
  table.read("kv_tokens", replica.kv_tokens, Whole<std::uint64_t>{1, 1'000'000'000'000},
             "Tokens that its KV cache holds; weir overfills no replica while another one has room. Without it: what "
             "the engine tells. TGI from v3 on tells nothing.");
  table.read("max_context", replica.max_context, Whole<std::uint64_t>{1, 1'000'000'000'000},
             "The most tokens of one request, prompt and output. A longer request prefers a replica whose context "
             "suffices. Without it: what the engine tells.");
  const auto* refuses = table.read("max_context_refuses", replica.max_context_refuses, flag,
                                   "A prompt estimated at more than 1.6 times `max_context` does not go to this "
                                   "replica; 400 where all replicas of the pool refuse it. Needs `max_context`.");
  if (refuses && replica.max_context_refuses && !replica.max_context) {
    table.blame("max_context_refuses", *refuses,
                "says to refuse what is longer than max_context, which this replica does not set; set max_context to "
                "the tokens that a request may have, or leave this out");
  }
  table.read("max_in_flight", replica.max_in_flight, Whole<std::uint32_t>{1, 1'000'000},
             "The most requests at a time. Others go elsewhere, or wait.");
  table.read("max_queued_tokens", replica.max_queued_tokens, Whole<std::uint64_t>{1, 1'000'000'000'000},
             "The most estimated prompt tokens that wait in the replica for their first token. Others go elsewhere, "
             "or wait. A longer request is sent when nothing else waits there.");
  table.refuse_the_rest();
  return replica;
}

void ReplicaReading::list(const Replica& replica, const std::string& within) {
  Places none;
  report_.listing()->push_back({"replica " + replica.name, within, {}});
  this->replica("[[replica]]", no_table, none, replica);
}

void ReplicaReading::read_expand(TableReader& table, Replica& replica) {
  const auto* expand = table.read("expand", replica.expand, flag,
                                  "Each address of the url's host is a replica: NAME-1, NAME-2 and so on, at most "
                                  "1024. For a headless service of Kubernetes. A member leaves once answers "
                                  "have lacked it for three intervals of `[discovery]` and it is down or drained.");
  if (!expand || !replica.expand) return;
  expanded_.emplace(replica.name, expand);
  if (!replica.url.unix_path.empty())
    table.blame("expand", *expand,
                "makes a replica of each address of the url's host, and the url names a socket; leave this out");
  else if (is_numeric(replica.url.host))
    table.blame("expand", *expand,
                "makes a replica of each address of the url's host, and \"" + replica.url.host +
                    "\" is an address; give the url a host's name, or leave this out");
}

void ReplicaReading::refuse_names_of_expanded() {
  for (const auto& [name, place] : names_) {
    const auto dash = name.rfind('-');
    if (dash == std::string::npos) continue;
    const auto number = std::string_view(name).substr(dash + 1);
    const auto found = expanded_.find(std::string_view(name).substr(0, dash));
    const bool is_number = !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
    if (found == expanded_.end() || !is_number) continue;
    report_.add(place->source().begin, titles_[name] + " name = \"" + name + "\": is a name for an address of \"" +
                                           found->first + "\", which has expand = true " + in_line(*found->second) +
                                           "; rename one of them");
  }
}

void ReplicaReading::read_key(TableReader& table, Replica& replica) {
  constexpr std::string_view what = "the replica's key";
  const auto* const read = read_secret_or_file(table, "api_key", "api_key_file", replica.api_key, what,
                                               "api_key is set as well, and a replica has one key; remove one "
                                               "of them",
                                               "The replica's key. Requests and probes carry it as "
                                               "`Authorization: Bearer KEY` in place of the client's credential. "
                                               "Without it the client's own credential goes on, unless it is a "
                                               "key for weir.",
                                               "File that holds the key and nothing else. Read at the start and "
                                               "at each reload. Not together with `api_key`.");
  if (server_.open || !server_.api_keys.empty() || read == nullptr) return;
  for (const auto& listener : listeners_) {
    if (listener.table != "[server]" || is_local(listener.address)) continue;
    const auto where = listener.written ? ' ' + in_line(*listener.written) : std::string();
    table.blame_secret(table.has("api_key") ? "api_key" : "api_key_file", *read,
                       "would be used for everyone who reaches \"" + to_text(listener.address) +
                           "\", which is [server] listen" + where +
                           "; give clients keys of their own with api_keys in [server], listen on a loopback address "
                           "such as \"127.0.0.1:8080\", or write open = true in [server] if everyone may use this "
                           "replica");
    return;
  }
}

namespace {

struct Threshold {
  std::string_view key;
  std::optional<Seconds> Slo::* value;
  About about;
};
constexpr std::array<Threshold, 4> thresholds{
    {{"ttft_client", &Slo::ttft_client,
      "The longest that a user may wait for the first token, weir's queue and all attempts included. Streams only."},
     {"ttft", &Slo::ttft, "The longest that the replica may take to the first token. Streams only."},
     {"tpot", &Slo::tpot, "The longest mean time per output token after the first. Streams only."},
     {"e2e", &Slo::e2e, "The longest that the whole request may take."}}};

Slo read_slo(const toml::table& source, const std::vector<Pool>& pools, Places& names, Report& report, Slo slo = {}) {
  TableReader table("[[slo]]", source, report);
  table.read_name(slo.name, name, names, "metrics need it, such as name = \"chat\"",
                  "The objective in metrics (label `slo`). Unique in the file.");
  if (const auto* node = table.require("pool", slo.pool, name, "say whose requests it is about",
                                       "The pool whose requests it is about.");
      node != nullptr && !pools.empty())
    names_one_of(table, "pool", *node, slo.pool, pools, "pool of the file");
  bool any = false;
  for (const auto& [key, value, about] : thresholds) {
    table.read(key, slo.*value, time, about);
    any |= table.has(key);
  }
  if (!any) {
    table.blame_table(
        "has no threshold; set at least one of ttft_client, ttft, tpot and e2e, such as ttft_client = "
        "\"1s\"");
  }
  table.refuse_the_rest();
  return slo;
}

}  // namespace

std::vector<Slo> read_slos(TableReader& file, const std::vector<Pool>& pools, Report& report) {
  std::vector<Slo> slos;
  Places names;
  for (const auto* source : file.tables("slo",
                                        "An objective of a pool's requests. `weir_slo_requests_total` counts those "
                                        "that met every threshold that applies, and those that did not. At least one "
                                        "threshold is set; each becomes a bucket bound of its histograms. "
                                        "Left out are `bad_request`, `client_error`, clients that left before a "
                                        "threshold had passed, and requests to which none applies: without `e2e`, all "
                                        "that are no streams."))
    slos.push_back(read_slo(*source, pools, names, report));
  return slos;
}

void list_slos(const std::vector<Slo>& slos, Report& report) {
  Places none;
  for (const auto& slo : slos) {
    report.listing()->push_back({"slo " + slo.name, "", {}});
    read_slo(no_table, {}, none, report, slo);
  }
}

Health read_health(TableReader table, Health health) {
  table.read("path", health.path, path_or_none,
             "Path of the probe (`GET`); a 2xx passes. 401, 403, 404 or 405: the replica is alive and has no such "
             "path, and from then on the probe only connects. `\"\"`: it only connects.");
  table.read("interval", health.interval, time,
             "Time between two probes of a replica, and between two readings of its metrics page, a fifth more or less "
             "at random. Three failed probes in a row take a replica out, a refused connection at once; one that "
             "passes brings it back, and it starts slowly.");
  table.read("timeout", health.timeout, time,
             "How long a probe or a page may take. A probe without an answer says nothing while the replica gives "
             "tokens.");
  table.read("eject", health.eject, flag,
             "Failing requests eject a replica too: five failures in a row, connections not taken in time, errors "
             "that its peers do not have, or a silence that a probe confirms. 10 s at first, twice as long each time "
             "up to 5 minutes, never more than half of a pool.");
  table.refuse_the_rest();
  return health;
}

EngineReading read_engine(TableReader table, const Health& health, EngineReading engine) {
  table.read("metrics_path", engine.metrics_path, path_or_none,
             "The engine's metrics page in Prometheus' text format, at most 1 MiB. A slow page is read less often, and "
             "figures older than two intervals are unknown. `\"\"`: weir asks the replica for nothing about itself.");
  table.refuse_the_rest();
  engine.interval = health.interval;
  engine.timeout = health.timeout;
  return engine;
}

}  // namespace weir::config

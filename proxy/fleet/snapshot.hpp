// Settings and fleet at one time, immutable; models, idle connections and failure notes of replicas.
//
// A snapshot is taken once a request and kept to its end.
//
// The next snapshot is a copy of the one before in which named members have changed, and is made in no other way
// (Snapshot::changed): so members that a change does not name are never lost, neither clients' keys nor TLS.
//
// Snapshots share the state that outlives them: a pool's books and a replica's state. A replica is (pool, name, url):
// with another url it is another replica.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "balancer/models.hpp"
#include "balancer/pool.hpp"
#include "balancer/story/retries.hpp"
#include "config/settings.hpp"
#include "metrics/moment.hpp"
#include "metrics/series/exposition.hpp"
#include "proxy/keys/client_keys.hpp"
#include "proxy/net/address.hpp"
#include "proxy/net/channel.hpp"
#include "proxy/net/tls/context.hpp"

namespace weir::proxy::fleet {

/// An entry of a replica's list, whole, as JSON on one line.
struct ModelEntry {
  std::string id, json;
  bool operator==(const ModelEntry&) const = default;
};
using ModelEntries = std::vector<ModelEntry>;

/// Returns the entries of an OpenAI model list; none if it is not one.
ModelEntries entries_of(std::string_view body);

/// Returns the ids for a pool; null for an empty list, which says nothing.
balancer::ModelList ids_of(const ModelEntries& entries);

class ServedModels {
 public:
  /// Adds a pool. A pool that names its models serves those and no others, each with the entry of the first replica
  /// that has one. A pool that names none serves all that its replicas tell. An id stays with the first pool that has
  /// it.
  void add_pool(const std::vector<std::string>& named, std::span<const std::shared_ptr<const ModelEntries>> replicas);

  /// Returns those of these models that are served.
  ServedModels only(const std::vector<std::string>& ids) const;
  bool empty() const { return entries_.empty(); }
  /// Returns the JSON of an entry; nothing if no pool serves it.
  const std::string* find(std::string_view id) const;
  /// Returns the answer to GET /v1/models.
  std::string text() const;

 private:
  void add(const ModelEntry& entry);

  ModelEntries entries_;
  std::map<std::string, std::size_t, std::less<>> places_;  ///< Maps an id to its index in `entries_`.
};

enum class Engine : std::uint8_t { unknown, vllm, aphrodite, sglang, tgi, llama_cpp, ollama, weir_sim };
std::string_view name_of(Engine engine);

/// The figures of one reading of the engine's metrics page. A figure that is absent is unknown.
struct EngineLoad {
  std::optional<double> running, waiting;             ///< Requests.
  std::optional<double> kv_usage;                     ///< The part of the KV cache in use, 0 to 1.
  std::optional<double> prefix_queries, prefix_hits;  ///< Counters, in tokens.
  /// running + waiting less the requests that weir had in flight there when the page came.
  std::optional<double> divergence;
  bool asleep = false;   ///< vLLM and Aphrodite say whether they sleep; then they have no cache.
  metrics::Moment at{};  ///< The page came then.
  /// The latest page came then on which a counter of the engine's work was higher than before.
  metrics::Moment moved = metrics::Moment::min();
  metrics::Moment good_until{};  ///< Two intervals later it is stale.

  bool operator==(const EngineLoad&) const = default;
};

struct EngineFigures {
  // Facts that stay until the engine tells otherwise, is down, or is another.
  Engine engine = Engine::unknown;
  std::string version,
      model;  ///< Printable and bounded; "" means unknown. `model` is the first that it serves.
  std::optional<std::uint64_t> kv_tokens, max_context;

  std::optional<EngineLoad> load;
  std::optional<std::chrono::duration<double>> reading_took;  ///< The last page took so long, whether it came or not.

  /// Returns the load, unless it is unknown or stale.
  const EngineLoad* load_at(metrics::Moment now) const { return load && now <= load->good_until ? &*load : nullptr; }
};

// Decides which failures of a replica the log tells: the first at once, with its reason; then at most one line a
// minute, with how many there were; and its return. It is told of every attempt and answers with the sentence to log,
// if one is due.

/// Any thread may use it. A success costs one relaxed load while nothing has failed lately; all else takes a lock.
class FailureNotes {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds between_lines{60};

  /// Notes that an attempt failed because of `why`, as in "connection refused".
  std::optional<std::string> failed(std::string_view why, Moment now);
  /// Notes that an attempt went well.
  std::optional<std::string> went_well(Moment now) {
    if (!watching_.load(std::memory_order_relaxed)) return std::nullopt;
    return returned(now);
  }

 private:
  std::optional<std::string> returned(Moment now);
  std::string counted(Moment now);
  void line_given(Moment now);

  std::atomic<bool> watching_{false};  ///< A line was given less than a minute ago, or something has failed since.
  std::mutex mutex_;
  bool down_ = false;                          ///< The last line said that it fails, and nothing went well since.
  Moment first_failure_{}, last_line_{};       ///< The first failure since the replica was up; the last line.
  std::uint64_t failures_ = 0, attempts_ = 0;  ///< Counts since the last line.
  std::uint64_t failures_down_ = 0;            ///< Counts since the replica is down.
  std::string why_;                            ///< The reason of the last failure.
};

/// Returns "3 s", "2 min 5 s", "1 h 2 min".
std::string in_words(std::chrono::steady_clock::duration time);

// A value that one thread publishes and others read, rarely: it is kept behind a mutex and copied out.
//
// A std::atomic<std::shared_ptr> would do, but ThreadSanitizer cannot follow its lock in libstdc++ 12.

template <class T>
class Published {
 public:
  T get() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }
  void set(T value) {
    const std::lock_guard lock(mutex_);
    value_ = std::move(value);
  }

 private:
  mutable std::mutex mutex_;
  T value_{};
};

/// When attempts on a replica that have sent their client nothing were last to go elsewhere, if they began before.
struct LeaveSigns {
  std::atomic<metrics::Moment> hung_at{metrics::Moment::min()};    ///< The replica was found to hang.
  std::atomic<metrics::Moment> asleep_at{metrics::Moment::min()};  ///< Its engine went to sleep, and another is awake.
};

/// What all snapshots that name a replica share: what weir has learned of it. Any thread may use it.
struct SharedReplica {
  const std::uint64_t id;  ///< Never used again in this process.
  /// The control thread sets it when the replica's name is resolved; each connect reads it.
  Published<std::optional<net::Address>> address{};
  balancer::story::UsageOption usage{};  ///< The source of its token counts.
  Published<EngineFigures> engine{};     ///< The control thread sets it.
  /// The list of its models, which the control thread sets; null means unknown.
  Published<std::shared_ptr<const ModelEntries>> models{};
  std::atomic<bool> cut{false};  ///< Its drain is over: what still runs there is ended.
  LeaveSigns leaves{};
  FailureNotes failures{};  ///< Decides which failures the log tells.
  /// A connection to the replica failed, so its host's name is looked up again.
  std::atomic<bool> connect_failed{false};
  // The control thread uses these.
  std::vector<net::Address> other_addresses{};  ///< Of its name. The probe tries them where `address` fails.
  bool probe_connects = false;                  ///< The replica has no health path, so a probe only connects.
  bool refuses_models = false;                  ///< It tells its models only to who has its key.
};

/// A replica as one snapshot knows it.
struct Replica {
  config::Replica settings;
  std::string pool;
  std::string host_in_settings;  ///< A replica that discovery found has its address in settings.url.
  balancer::ReplicaKey key;      ///< Names the replica in its pool's books.
  bool inject_usage = true, inject_continuous_usage = false;
  std::shared_ptr<metrics::series::ReplicaSeries> series;
  std::shared_ptr<SharedReplica> state;
  std::shared_ptr<const net::tls::Target> tls;  ///< Null means plain.

  /// Returns where it is now; nothing if its name has not been looked up yet.
  std::optional<net::Destination> destination() const;
};

struct ShadowRuntime;

struct PoolRuntime {
  config::Pool settings;
  std::string shadow;  ///< The name of the shadow whose replicas these are; "" for a pool of the settings.
  std::shared_ptr<balancer::Pool> balancer;
  std::vector<std::shared_ptr<Replica>> replicas;              ///< In the order of the file.
  std::shared_ptr<metrics::series::ReplicaSeries> unassigned;  ///< Has the requests that reached none of the
                                                               ///< replicas.
  std::shared_ptr<balancer::story::PoisonMemory> poison;
  std::vector<std::shared_ptr<const ShadowRuntime>> shadows;  ///< The shadows that get copies of this pool's requests.
  std::optional<config::Rollout> rollout;                     ///< Holds the pool: its requests are split.

  bool has(const Replica& replica) const;
  /// True if this replica has an address, is up or starts, and no split closes it.
  bool may_serve(const Replica& replica, metrics::Moment now) const;
};

/// The state of a shadow, which all snapshots that name it share. Any thread may use it.
struct ShadowState {
  std::atomic<bool> on{true};
  /// The moment of its first request; Moment::max() before that.
  std::atomic<metrics::Moment> began{metrics::Moment::max()};
  std::atomic<std::uint64_t> finished{0};  ///< The mirrored requests that have been answered since then.
};

/// A shadow as one snapshot knows it. Its replicas have books of their own.
struct ShadowRuntime {
  config::Shadow settings;
  std::shared_ptr<const PoolRuntime> pool;
  std::shared_ptr<ShadowState> state;
};

/// A replica that is no longer in the settings and still has requests. Its series are exported until nobody owns them,
/// so that the counters lose no request.
struct LeavingReplica {
  std::shared_ptr<balancer::Pool> balancer;
  std::shared_ptr<const Replica> replica;
  metrics::Moment since;
};

struct Snapshot {
  /// Returns a copy of `before`, an empty one for null, in which `change(Snapshot&)` has replaced what it names. Throws
  /// std::logic_error for a snapshot whose keys or TLS do not fit its settings: then a member was forgotten.
  template <class Change>
  static std::shared_ptr<const Snapshot> changed(const Snapshot* before, Change&& change) {
    const std::shared_ptr<Snapshot> next(before != nullptr ? new Snapshot(*before) : new Snapshot());
    std::forward<Change>(change)(*next);
    next->complete();
    return next;
  }

  /// Throws what changed() throws for a snapshot of such settings with these keys and this TLS, which may be null.
  /// Whoever changes more than the snapshot calls it first.
  static void check(const config::Server& server, const keys::ClientKeys* keys, const net::tls::ServerContext* tls);

  std::shared_ptr<const keys::ClientKeys> keys;  ///< Clients need one of these; null if they need none.
  config::Settings settings;
  std::shared_ptr<const net::tls::ServerContext> server_tls;  ///< Null means that clients speak plainly.
  std::vector<std::shared_ptr<const PoolRuntime>> pools;
  std::vector<std::shared_ptr<const ShadowRuntime>> shadows;
  /// The pools above, and then those of the shadows. They follow from the two, so no change sets them.
  std::vector<std::shared_ptr<const PoolRuntime>> all_pools;
  std::vector<LeavingReplica> leaving;
  /// Pools that are no longer in the settings, in which requests that began before may still wait or run. Their
  /// replicas are probed, or the requests that wait would find none.
  std::vector<std::shared_ptr<const PoolRuntime>> leaving_pools;

  /// Calls look(pool) for each pool of the settings, and for each that has left them.
  template <class Look>
  void each_pool(const Look& look) const {
    for (const auto* some : {&all_pools, &leaving_pools})
      for (const auto& pool : *some) look(pool);
  }
  /// Calls look(pool, replica) for each replica of the settings, and for each that has left them and still has
  /// requests.
  template <class Look>
  void each_replica(const Look& look) const {
    each_pool([&](const auto& pool) {
      for (const auto& replica : pool->replicas) look(*pool, std::shared_ptr<const Replica>(replica));
      for (const auto& one : leaving)
        if (one.balancer == pool->balancer && !pool->has(*one.replica)) look(*pool, one.replica);
    });
  }
  /// Forgets the entries of replicas that each_replica() does not visit. The keys of `by_id` are SharedReplica::id.
  template <class Map>
  void keep_known(Map& by_id) const {
    std::set<std::uint64_t> known;
    each_replica([&](const PoolRuntime&, const auto& replica) { known.insert(replica->state->id); });
    std::erase_if(by_id, [&](const auto& one) { return !known.contains(one.first); });
  }
  /// True if requests still wait in this pool, though it is no longer in the settings.
  bool is_waited_for(const balancer::Pool& pool, metrics::Moment now) const;
  /// Returns the pool of the settings that has this balancer; null if there is none.
  const PoolRuntime* pool_of(const balancer::Pool& balancer) const;
  /// Returns the first pool that serves this model. For "" (the request names none) it is the first pool that takes
  /// any model; without one it is the first pool.
  const PoolRuntime* pool_for(std::string_view model) const;
  /// True if the model alone says which pool is to have a request: there are several, and each names its models.
  bool needs_model() const;
  /// False if the first pool takes any model, so that it has every request.
  bool model_decides() const { return pools.empty() || !pools.front()->settings.models.empty(); }
  /// True if some pool looks at the prefixes of prompts.
  bool is_prefix_aware() const;
  /// Returns the models that pools name, for an error's sentence.
  std::string known_models() const;

 private:
  Snapshot() = default;
  Snapshot(const Snapshot&) = default;
  void complete();
};

/// Returns how many tokens the replica's KV cache holds: as set, or as the engine tells.
std::optional<std::uint64_t> kv_tokens_of(const config::Replica& settings, const SharedReplica& state);

/// Some replica of the pool is up, or starts.
bool any_up(const PoolRuntime& pool, metrics::Moment now);

// Keeps connections to replicas until their next request. Each loop has its own. A connection keeps no snapshot, so its
// next request sees current settings.

/// Keeps connections until their next request. A connection that the replica has closed, or on which bytes came
/// unasked, is not given out. The poller notes both, so that no system call has to ask. No connection is kept before
/// the first adopt().
class IdleConnections {
 public:
  /// `where` is the replica now. Connections to an address that it no longer has, or by other rules of TLS, are closed.
  std::unique_ptr<net::Channel> take(const SharedReplica& replica, const net::Destination& where, metrics::Moment now);
  /// The connection leads to `where`. Returns false if one connection too many was there, and was closed for it.
  bool put(const SharedReplica& replica, net::Destination where, std::unique_ptr<net::Channel> connection,
           metrics::Moment now);
  /// Closes those past their age, and those that the replica has closed: the poller has noted it. To be called often.
  void drop_old(metrics::Moment now);
  /// Follows a change of the settings: closes the connections of replicas that this snapshot does not name,
  /// and the oldest of those that it names where it keeps fewer.
  void adopt(const Snapshot& snapshot);

 private:
  struct Idle {
    std::unique_ptr<net::Channel> connection;
    net::Destination where;
    metrics::Moment since;
  };
  std::size_t most_ = 0;
  std::chrono::steady_clock::duration longest_{};
  std::unordered_map<std::uint64_t, std::deque<Idle>> idle_;  ///< The key is SharedReplica::id; the oldest comes first.
};

}  // namespace weir::proxy::fleet

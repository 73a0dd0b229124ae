// The health of a pool's replicas, by what requests, probes and witnesses show of them. Like its pool, which owns it,
// it is thread-safe; a report that brings a replica back serves the queue.
//
// A replica that is silent for 5 s is suspected, and witnesses are asked (Suspicion). The suspicion stands once the
// silence is four times the predicted time to first token, or an answer that is not streamed is overdue, or failed
// probes took the replica down. The replica hangs if
//
// 1. the suspicion stands, and a probe gets no answer or an error, or the replica is down, or mute for 10 s;
// 2. neither probe nor metrics page is answered for 10 s and for the predicted time to first token;
// 3. its own counters stand still for 60 s and eight times what an answer that is not streamed takes;
// 4. no stream got a token for 60 s and eight times what all of its work takes;
// 5. an answer that is not streamed is due for 300 s and eight times what the longest such output takes.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "balancer/evidence.hpp"
#include "balancer/health.hpp"
#include "balancer/models.hpp"
#include "balancer/pool_state.hpp"
#include "balancer/prefix/replica_prefixes.hpp"
#include "balancer/replica_view.hpp"
#include "balancer/tokens.hpp"

namespace weir::balancer {

/// The limits by which silent replicas are judged.
namespace silence {

/// The least silence of a replica's streams that makes it suspect. The suspicion stands, so that one witness is enough
/// and others are preferred, when the silence is four times what its books predict; or when the replica has shown
/// nothing for as long as a request that is not streamed was to take.
inline constexpr double least_suspect_seconds = 5, suspicion_factor = 4;
/// The least silence that convicts a replica that answers its probes; the silence has to be eight times what its books
/// predict, too: engines compile for 40 s. A request that is not streamed counts with the longest output that it may
/// have, and is given longer: another pool or another weir may have an answer made there, or a model loaded.
inline constexpr double least_convicting_seconds = 60, least_convicting_unstreamed_seconds = 300;
inline constexpr double conviction_factor = 8;
/// Before a replica's rates are known, its books predict with these, in tokens per second.
inline constexpr double slowest_prefill = 100, slowest_decode = 20;

}  // namespace silence

struct ReplicaHealth {
  ReplicaState state = ReplicaState::down;
  Moment since{};
  std::string reason;                           ///< A clause.
  std::chrono::duration<double> probe_after{};  ///< When to probe it next, after a probe.
  bool closed = false;  ///< The replica belongs to a candidate that gets no request, whatever its state.
  bool asleep = false;  ///< The replica is in, and says that it sleeps: it gives way to any that is awake.
};

struct ReplicaChange {
  std::string replica;
  std::shared_ptr<void> subject;  ///< ReplicaSpec::subject.
  Health::Change change;
};

/// A replica that may hang: its witnesses are to be asked, and what they say goes to PoolHealth::testify.
struct Suspect {
  ReplicaKey key;
  std::shared_ptr<void> subject;  ///< ReplicaSpec::subject.
  Moment since;
};

/// Nothing happens for a replica that is gone.
class PoolHealth {
 public:
  explicit PoolHealth(PoolCore& core) : core_(core) {}

  /// Takes what a request, by its caller, or a probe showed of a replica. With Sign::full, `full_for` is how long the
  /// replica asked to be left alone; see Evidence::full if it did not say.
  void report(const ReplicaKey& replica, Sign sign, Moment now,
              std::optional<std::chrono::duration<double>> full_for = {}, const Caller& caller = {});
  /// Requests that are lost within such a time may be lost for the same reason.
  static constexpr std::chrono::seconds lost_together{1};

  /// Notes that the replica was lost at work on a request. Returns true if it had no other then: the request may be
  /// why.
  bool is_lost_alone(const ReplicaKey& replica, Moment now);
  /// True if all other replicas that are in refused such a request lately with the same status: then the client erred.
  /// Less would pass on the refusals of those that lack a model which one of them has.
  bool refused_everywhere(const ReplicaKey& replica, const Caller& caller, Moment now);
  /// True if another replica answered such a request well lately after this one had refused it.
  bool was_outdone(const ReplicaKey& replica, const Caller& caller, Moment now);
  /// Takes an ejected replica back on probation: it starts slowly, and what it was ejected for is forgotten. Returns
  /// whether it was ejected.
  bool pardon(const ReplicaKey& replica, Moment now);
  /// Says that the replica has no address, and why, as a clause.
  void unresolved(const ReplicaKey& replica, std::string_view reason, Moment now);
  /// Says that the replica's health path has answered with an error of this status.
  void ill(const ReplicaKey& replica, unsigned status, Moment now);
  /// Takes what the replica's engine told; nothing once that is over. The facts stay until the next call, whatever
  /// Pool::set_replicas says. Returns true if the engine has gone to sleep and another replica can take its requests.
  bool engine_told(const ReplicaKey& replica, const EngineLimits& limits);
  /// Takes the replica's own list of its models; null where that is unknown.
  void models_told(const ReplicaKey& replica, ModelList models);
  /// Takes what a reading of the engine's page shows of its prefix cache.
  void cache_told(const ReplicaKey& replica, const EngineSigns& signs);

  /// Returns `down` for a replica that is gone.
  ReplicaHealth of(const ReplicaKey& replica, Moment now);
  /// Returns the changes of states since the last call, each once. Of a replica that is no longer named, it tells only
  /// that it hangs. Time alone makes some, so it is to be called often.
  std::vector<ReplicaChange> take_changes(Moment now);

  /// Returns the replicas that take_changes() has found to be silent for too long, each once.
  std::vector<Suspect> take_suspects();
  /// Takes what a witness says of a replica that is suspected to hang. `asked`: when the witness began to look.
  void testify(const ReplicaKey& replica, Testimony what, Moment asked, Moment now);
  /// Returns when the replica last gave a token or a whole answer, as this call sees it; nothing if it gave none.
  std::optional<Moment> last_life(const ReplicaKey& replica, Moment now);

 private:
  PoolCore& core_;
};

}  // namespace weir::balancer

// The judgment of silent replicas. A replica that is silent for 5 s is suspected, and witnesses are asked
// (suspicion.hpp). The suspicion stands once the silence is four times the predicted time to first token, or an answer
// that is not streamed is overdue, or failed probes took the replica down. The replica hangs if
//
// 1. the suspicion stands, and a probe gets no answer or an error, or the replica is down, or mute for 10 s;
// 2. neither probe nor metrics page is answered for 10 s and for the predicted time to first token;
// 3. its own counters stand still for 60 s and eight times what an answer that is not streamed takes;
// 4. no stream got a token for 60 s and eight times what all of its work takes;
// 5. an answer that is not streamed is due for 300 s and eight times what the longest such output takes.
//
// A Pool calls it under its mutex, for each replica and often.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "balancer/pool_state.hpp"
#include "balancer/replica_set.hpp"
#include "balancer/tokens.hpp"

namespace weir::balancer::silence {

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

/// Begins and ends the suspicion of a replica. Returns a clause that says why, if the replica hangs.
std::optional<std::string> judge(PoolReplica& replica, Moment now);

/// Puts out a replica that hangs. Requests that are there count in no silence any more.
void convict(PoolReplica& replica, std::string_view reason, Moment now);

/// True if an answer, or a part of one, came within the last seconds.
bool lives(PoolReplica& replica, Moment now);

}  // namespace weir::balancer::silence

// The ends of replicas' starts. A starting replica is up once its allowance reaches the median prefill_left of its
// peers; without peers, its own prefill_left and the queue. A Pool owns it and calls it under its mutex.

namespace weir::balancer {

/// Returns the middle value, or the mean of the two middle ones; 0 if there are none. Reorders `values`.
double median_of(std::span<double> values);

class Starts {
 public:
  explicit Starts(PoolState& pool) : pool_(pool) {}

  /// Ends the starts of replicas that have finished enough.
  void end_finished();

 private:
  PoolState& pool_;
  std::vector<double> held_;  ///< Kept for its memory.
};

}  // namespace weir::balancer

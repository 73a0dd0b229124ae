// An attempt at a request: all that it leaves behind when it is over, and what the story keeps of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "balancer/lease.hpp"
#include "balancer/story/end.hpp"
#include "balancer/story/usage_option.hpp"
#include "balancer/story/verdict.hpp"
#include "metrics/moment.hpp"
#include "metrics/record/answer.hpp"
#include "metrics/vocabulary.hpp"

namespace weir::balancer::story {

/// The replica of an attempt.
struct ReplicaRef {
  std::shared_ptr<void> subject{};  ///< The driver's replica, from ReplicaSpec::subject; keeps `usage` alive.
  ReplicaKey key{};                 ///< Names the replica in its pool's books.
  UsageOption* usage = nullptr;     ///< weir's knowledge of how this replica reports usage.
  bool doubted = false;             ///< See Lease::doubted.
};

/// Everything that an attempt leaves behind but the answer, however it ended. The parts of the attempt fill it while it
/// runs, and the story moves what the record has of it there.
struct AttemptReport {
  Lease lease{};  ///< The replica's work ends it. With stale, option_refused and unconnected it comes back unused.
  End end = End::closed;
  Reply reply = Reply::none;
  ConnectFailure connect_failure = ConnectFailure::other;  ///< Set with End::unconnected.
  int connect_error = 0;                                   ///< The errno or TLS error behind it, for a sentence.
  /// With Reply::none and Reply::error: why another replica may do better. Absent: a retry would take as long, so none
  /// is made.
  std::optional<metrics::Retry> retry_reason{};
  Verdict verdict{};
  unsigned status = 0;                                ///< The status of the replica's head; 0 if none was read.
  std::optional<std::chrono::seconds> retry_after{};  ///< The replica's head asked to be left alone so long.
  bool replica_cut = false;  ///< The replica's time to drain was over, or it sleeps: nothing counts against it.
  bool accepted = false;     ///< The client got the replica's head.
  /// With Reply::error: the answer as it would have been relayed; null if it was not kept. Its bytes count against
  /// limits.buffer_memory while anyone holds it.
  std::shared_ptr<std::string> kept{};
  std::optional<Moment> sent{}, head{};
  Moment ended{};  ///< The client had taken everything by then.
  metrics::Nanoseconds connect{}, paused{};
  std::optional<metrics::Nanoseconds> overhead_max{};
  Concurrency concurrency{};
  std::uint64_t bytes_out = 0;
  bool client_keep_alive = false;  ///< The client's connection may serve another request.
  bool client_reset = false;       ///< The body was cut where only a reset shows it, or for a client that stood still.
  bool replica_reusable = false;   ///< Head, body and framing came whole from the replica, and nothing after them.
};

/// The report of an attempt that has ended, with the answer, which its meter had until then.
struct AttemptOver : AttemptReport {
  metrics::record::Answer answer{};

  /// The status that the answer stands for: an error inside a 200 answer may name one.
  unsigned told_status() const { return answer.in_band_status != 0 ? answer.in_band_status : status; }
};

/// The replica had the request and broke off.
inline bool was_lost(const AttemptOver& over) {
  return over.sent && over.verdict.outcome == metrics::Outcome::upstream_reset && over.reply != Reply::error;
}

/// An attempt as the story's list has it.
struct Attempt {
  ReplicaRef replica;
  Moment started{};
  std::optional<Moment> sent{}, head{}, first_token{};
  std::optional<metrics::Nanoseconds> connect{};  ///< How long connecting took; absent for an idle connection.
  Moment ended{};
  End end = End::closed;                ///< Meaningful once `ended` is set.
  unsigned status = 0;                  ///< 0 if no head was read.
  std::optional<metrics::Retry> why{};  ///< Why another attempt followed.
};

}  // namespace weir::balancer::story

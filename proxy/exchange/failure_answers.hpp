// weir's own error answers, where no replica's answer can be given: a sentence with the cause and, if there is one, the
// way out. These are pure functions.
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "balancer/pool.hpp"
#include "balancer/story/attempt.hpp"
#include "config/settings.hpp"
#include "metrics/series/shard.hpp"
#include "metrics/vocabulary.hpp"
#include "proxy/fleet/fleet.hpp"
#include "proxy/http/writing.hpp"
#include "proxy/net/connect.hpp"

namespace weir::proxy::exchange {

/// Answers that no replica of the pool may take the request now, or ever. `up`: one is up. Clients sleep as long as
/// they are told to, to the millisecond; `spread`, from 1 to 1.5, keeps those that were refused together from coming
/// back together.
http::OwnAnswer refusal_answer(const balancer::Refused& refused, const config::Pool& pool, bool up, double spread);

/// Returns which limit of the settings bit.
std::optional<metrics::series::Limit> limit_of(balancer::Refused::Reason reason, const config::Pool& pool);

/// Answers that weir could connect to no replica. `replica` is the last one that was tried. `error`: see
/// net::connect_error_text().
http::OwnAnswer unconnected_answer(const std::string& replica, int error);

/// Answers that two replicas were lost at work on the request, `replica` last.
http::OwnAnswer poison_answer(const std::string& replica);

/// Answers that the last replica that was tried gave nothing to send on; `outcome` says what it did.
http::OwnAnswer failure_answer(const std::string& replica, metrics::Outcome outcome);

// Tells a replica's FailureNotes how an attempt on it ended, and logs what they answer.

using metrics::Moment;

/// Returns why an attempt that ended so speaks against the replica; "" if it does not, because it went well or shows
/// nothing. A `status` of 0 means that no head was read.
std::string failure_reason(metrics::Outcome outcome, unsigned status);

/// Notes that an attempt on a connected `replica` has ended. Any loop's thread may call the functions here.
void note_attempt(const fleet::Replica& replica, const balancer::story::AttemptOver& over, Moment now);
/// Notes that weir could not connect to it, by the replica's own fault. `error` is as for net::connect_error_text().
void note_unconnected(const fleet::Replica& replica, int error, Moment now);
/// Notes that weir lacked something for a connection (see net::is_local_shortage), or has it again.
void note_local_shortage(fleet::FailureNotes& shortages, int error, Moment now);
/// Notes that a request has lost its second replica, `replica`. A line a minute tells of it.
void note_poison(std::atomic<Moment>& last_line, const std::string& request, const std::string& replica, Moment now);
/// Notes that the replica refuses the usage option.
void note_option_refused(const fleet::Replica& replica);
void note_local_recovery(fleet::FailureNotes& shortages, Moment now);

// Maps the error of a failed connection to story::ConnectFailure.

/// `error` is as for net::connect_error_text().
inline balancer::story::ConnectFailure connect_failure_of(int error) {
  using balancer::story::ConnectFailure;
  if (error == net::name_unknown) return ConnectFailure::no_address;
  if (net::is_local_shortage(error)) return ConnectFailure::local_shortage;
  switch (error) {
    case ECONNREFUSED:
    case ENOENT:  // The socket of a Unix-domain path is gone with its program.
      return ConnectFailure::refused;
    case EAGAIN:  // The backlog of a Unix-domain socket is full: the kernel says so at once, where TCP would wait.
      return ConnectFailure::backlog_full;
    case ETIMEDOUT:
      return ConnectFailure::timed_out;
    default:
      return ConnectFailure::other;
  }
}

}  // namespace weir::proxy::exchange

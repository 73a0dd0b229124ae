// Judges an attempt by what was seen of it, as a pure table. Nothing here knows a socket, a clock or a client.
#pragma once

#include <cstdint>
#include <optional>

#include "balancer/blame.hpp"
#include "balancer/lease.hpp"
#include "metrics/measure/stream_meter.hpp"
#include "metrics/record/answer.hpp"
#include "metrics/vocabulary.hpp"

namespace weir::proxy::exchange {

using balancer::Blame;

/// Says how the replica's side of an attempt ended.
enum class ReplicaEnd : std::uint8_t {
  whole,        ///< The answer came to the end of its framing.
  marked,       ///< Its connection ended or stood still behind its stream's end marker, so nothing is missing.
  truncated,    ///< A stream ended with its connection and without a sign of its end.
  reset,        ///< The connection was reset.
  closed,       ///< The connection was closed within an answer or before it.
  bad_framing,  ///< The bytes are no HTTP answer.
  timed_out,    ///< The replica took too long.
  cut,          ///< It was to drain, and limits.drain is over.
  left,         ///< Nobody wants the rest: the client has gone, or another replica is asked.
  // With these the replica's work did not begin; the request goes out once more, under the same lease.
  stale,              ///< A connection that had served before died before a byte was read.
  injection_refused,  ///< The replica refused what weir had added to the request; the original is sent next.
};

/// What is known of an attempt when its replica's work has ended.
struct Evidence {
  ReplicaEnd end = ReplicaEnd::left;
  unsigned status = 0;  ///< It is 0 if no head was read.
  metrics::Api api = metrics::Api::other;
  metrics::measure::BodyForm form = metrics::measure::BodyForm::opaque;
  bool sent = false;            ///< A byte of the request was sent.
  bool client_has_all = false;  ///< With `left` it says that the end marker, and all before it, has been written to the
                                ///< client.
};

struct Verdict {
  metrics::Outcome outcome = metrics::Outcome::upstream_error;
  std::optional<metrics::Phase> phase{};  ///< It is set with client_abort, and where a drain cut the request.
  Blame blame = Blame::nobody;            ///< All that counts against a replica derives from it.
};

/// Judges an attempt. The first cause wins: an error that the replica reported in its stream is not undone by what came
/// later.
Verdict verdict_of(const Evidence& evidence, const metrics::record::Answer& answer);

/// Judges an attempt without a connection. `error` is as for net::connect_error_text().
Verdict verdict_of_connecting(int error);

/// Returns why the attempt's lease ends.
balancer::EndCause cause_of(const Verdict& verdict);

/// True if the client's body has to be cut after such an end, because the client could not see it otherwise.
bool breaks_off(ReplicaEnd end);

/// Judges an attempt whose error answer was given up for another replica's.
Verdict verdict_of_given_up_error(unsigned status);

/// Returns whose fault such an end was. `status` is the replica's; 0 if it gave none. A second replica may prove this
/// wrong: see Signs and SecondOpinions.
Blame blame_of(metrics::Outcome outcome, unsigned status);

}  // namespace weir::proxy::exchange

#include "proxy/exchange/verdict.hpp"

#include <cerrno>

#include "proxy/fleet/replica_status.hpp"
#include "proxy/net/connect.hpp"

namespace weir::proxy::exchange {
namespace {

using metrics::Outcome;
using metrics::Phase;
using metrics::measure::BodyForm;

Outcome outcome_of_whole_answer(const Evidence& seen, const metrics::record::Answer& answer) {
  if (fleet::is_full(seen.status)) return Outcome::replica_refused;
  if (fleet::refuses_the_request(seen.status)) return Outcome::client_error;
  if (seen.status >= 500) return Outcome::upstream_error;
  // The engines' APIs do not redirect, so the server at that address is none of them.
  if (seen.status >= 300 && seen.api != metrics::Api::other) return Outcome::upstream_error;
  if (answer.in_band_error) return Outcome::upstream_error;
  if (answer.complete == metrics::Completeness::none) return Outcome::truncated;
  const bool counts_tokens = seen.form != BodyForm::opaque && metrics::generates(seen.api) && !answer.unparsed;
  return counts_tokens && answer.token_events == 0 ? Outcome::ok_empty : Outcome::ok;
}

/// Tells where a request was when its client left, or when it was cut.
Phase phase_of(const Evidence& seen, const metrics::record::Answer& answer) {
  if (answer.first_token) return Phase::decode;
  return seen.sent ? Phase::prefill : Phase::queue;
}

Verdict outcome_of(const Evidence& seen, const metrics::record::Answer& answer) {
  const bool whole = seen.end == ReplicaEnd::whole || seen.end == ReplicaEnd::marked || seen.client_has_all;
  if (whole) return {outcome_of_whole_answer(seen, answer)};
  if (answer.in_band_error) return {Outcome::upstream_error};
  switch (seen.end) {
    case ReplicaEnd::truncated:
      return {Outcome::truncated};
    case ReplicaEnd::timed_out:
      return {Outcome::timeout};
    case ReplicaEnd::bad_framing:
      return {Outcome::upstream_error};
    case ReplicaEnd::left:
      return {Outcome::client_abort, phase_of(seen, answer)};
    case ReplicaEnd::cut:
      return {Outcome::rejected, phase_of(seen, answer)};
    default:
      return {Outcome::upstream_reset};
  }
}

}  // namespace

Verdict verdict_of(const Evidence& seen, const metrics::record::Answer& answer) {
  Verdict verdict = outcome_of(seen, answer);
  verdict.blame = blame_of(verdict.outcome, seen.status);
  return verdict;
}

Verdict verdict_of_connecting(int error) {
  if (net::is_local_shortage(error)) return {Outcome::rejected, {}, Blame::weir};
  return {error == ETIMEDOUT ? Outcome::timeout : Outcome::upstream_error, {}, Blame::replica};
}

balancer::EndCause cause_of(const Verdict& verdict) {
  using balancer::EndCause;
  switch (verdict.blame) {
    case Blame::client:
      return EndCause::client_erred;
    case Blame::replica:
      return EndCause::replica_failed;
    case Blame::weir:
      return EndCause::unsent;
    case Blame::nobody:
      break;
  }
  return verdict.outcome == Outcome::client_abort ? EndCause::client_left : EndCause::answered;
}

bool breaks_off(ReplicaEnd end) { return end != ReplicaEnd::whole && end != ReplicaEnd::marked; }

Verdict verdict_of_given_up_error(unsigned status) {
  const auto outcome = fleet::is_full(status) ? Outcome::replica_refused : Outcome::upstream_error;
  return {outcome, {}, blame_of(outcome, status)};
}

Blame blame_of(Outcome outcome, unsigned status) {
  switch (outcome) {
    case Outcome::ok:
    case Outcome::ok_empty:
    case Outcome::client_abort:
      return Blame::nobody;
    case Outcome::client_error:
    case Outcome::bad_request:
      return Blame::client;
    case Outcome::rejected:
      return Blame::weir;
    case Outcome::replica_refused:
      return Blame::replica;
    case Outcome::upstream_error:
    case Outcome::upstream_reset:
    case Outcome::truncated:
    case Outcome::timeout:
      break;
  }
  // A replica may refuse a request before it has read it, and close.
  return fleet::refuses_the_request(status) ? Blame::client : Blame::replica;
}

}  // namespace weir::proxy::exchange

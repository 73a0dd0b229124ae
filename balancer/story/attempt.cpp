#include "balancer/story/attempt.hpp"

#include <algorithm>
#include <utility>

namespace weir::balancer::story {
namespace {

using metrics::Outcome;
using metrics::Phase;

/// An error inside a 200 answer is the replica's failure, unless it says that there is no room, or that the request is
/// at fault.
Outcome outcome_of_in_band_error(const metrics::record::Answer& answer) {
  if (another_may_have_room(answer.in_band_status)) return Outcome::replica_refused;
  return refuses_the_request(answer.in_band_status) ? Outcome::client_error : Outcome::upstream_error;
}

Outcome outcome_of_whole_answer(const AttemptFacts& seen, const metrics::record::Answer& answer) {
  if (another_may_have_room(seen.status)) return Outcome::replica_refused;
  if (refuses_the_request(seen.status)) return Outcome::client_error;
  if (is_failure(seen.status)) return Outcome::upstream_error;
  // The engines' APIs do not redirect, so the server at that address is none of them.
  if (seen.status >= 300 && seen.api != metrics::Api::other) return Outcome::upstream_error;
  if (answer.in_band_error) return outcome_of_in_band_error(answer);
  if (seen.status == 204 && metrics::generates(seen.api)) return Outcome::ok_empty;
  if (seen.is_page && !seen.body_is_read) return Outcome::ok_empty;
  if (answer.complete == metrics::Completeness::none) return Outcome::truncated;
  if (seen.is_json && answer.unparsed && answer.token_events == 0) return Outcome::ok_empty;
  const bool counts_tokens = seen.body_is_read && metrics::generates(seen.api) && !answer.unparsed;
  return counts_tokens && answer.token_events == 0 ? Outcome::ok_empty : Outcome::ok;
}

/// Tells where a request was when its client left, or when it was cut.
Phase phase_of(const AttemptFacts& seen, const metrics::record::Answer& answer) {
  if (answer.first_token) return Phase::decode;
  return seen.sent ? Phase::prefill : Phase::queue;
}

Verdict unblamed_verdict(const AttemptFacts& seen, const metrics::record::Answer& answer) {
  const bool whole = seen.end == End::whole || seen.end == End::marked || seen.client_has_all;
  if (whole) return {outcome_of_whole_answer(seen, answer)};
  if (answer.in_band_error) return {outcome_of_in_band_error(answer)};
  const Outcome outcome = facts_of(seen.end).outcome;
  const bool unwanted = outcome == Outcome::client_abort || outcome == Outcome::rejected;
  return {outcome, unwanted ? std::optional(phase_of(seen, answer)) : std::nullopt};
}

}  // namespace

Verdict verdict_of(const AttemptFacts& seen, const metrics::record::Answer& answer) {
  Verdict verdict = unblamed_verdict(seen, answer);
  verdict.blame = blame_of(verdict.outcome, seen.status);
  return verdict;
}

Verdict verdict_of_connecting(ConnectFailure failure) {
  if (failure == ConnectFailure::local_shortage) return {Outcome::rejected, {}, Blame::weir};
  return {failure == ConnectFailure::timed_out ? Outcome::timeout : Outcome::upstream_error, {}, Blame::replica};
}

EndCause cause_of(const Verdict& verdict) {
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
  if (verdict.outcome != Outcome::client_abort) return EndCause::answered;
  return verdict.phase == Phase::queue ? EndCause::unsent : EndCause::client_left;
}

Verdict verdict_of_given_up_error(unsigned status) {
  const auto outcome = another_may_have_room(status) ? Outcome::replica_refused : Outcome::upstream_error;
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
  return refuses_the_request(status) ? Blame::client : Blame::replica;
}

bool another_may_have_room(unsigned status) { return status == 408 || status == 429 || status == 503; }

bool has_no_room(unsigned status) { return status == 429 || status == 503; }

bool is_failure(unsigned status) { return (status >= 500 && status != 501 && status != 503) || status == 424; }

bool refuses_the_request(unsigned status) {
  return (status / 100 == 4 && !another_may_have_room(status) && !is_failure(status)) || status == 501;
}

bool refuses_the_content(unsigned status) {
  return refuses_the_request(status) && status / 100 == 4 && status != 401 && status != 403 && status != 499;
}

bool needs_second_opinion(unsigned status) { return status == 401 || status == 403 || status == 404 || status == 501; }

bool may_be_bettered(unsigned status, bool doubted) {
  return is_failure(status) || another_may_have_room(status) || needs_second_opinion(status) ||
         (doubted && refuses_the_request(status));
}

int error_rank(unsigned status) {
  if (status == 429) return 3;
  if (another_may_have_room(status)) return 2;
  return needs_second_opinion(status) ? 1 : 0;
}

namespace {

std::optional<Sign> sign_of_connecting(ConnectFailure failure) {
  switch (failure) {
    case ConnectFailure::refused:
      return Sign::refused;
    case ConnectFailure::timed_out:
      return Sign::connect_timed_out;
    case ConnectFailure::backlog_full:
      return Sign::full;
    case ConnectFailure::other:
      return Sign::failed;
    case ConnectFailure::no_address:
    case ConnectFailure::local_shortage:
      break;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Sign> sign_of(const AttemptOver& over) {
  switch (over.end) {
    case End::unconnected:
      return sign_of_connecting(over.connect_failure);
    case End::stale:
    case End::option_refused:
    case End::client_left:
      return std::nullopt;
    default:
      break;
  }
  // TGI and SGLang answer 200 and refuse in the first event.
  if (has_no_room(over.told_status())) return Sign::full;
  switch (over.verdict.blame) {
    case Blame::nobody:
      if (over.verdict.outcome == metrics::Outcome::client_abort) return std::nullopt;
      return over.verdict.outcome == metrics::Outcome::ok_empty ? Sign::empty : Sign::answered;
    case Blame::client:
      return Sign::client_error;
    case Blame::replica:
      return Sign::failed;
    case Blame::weir:
      break;
  }
  return std::nullopt;
}

bool may_be_the_requests_fault(const AttemptOver& over) {
  const bool refused_in_band = over.reply == Reply::error && over.answer.in_band_error;
  return (over.status >= 500 || is_failure(over.status) || refused_in_band) && sign_of(over) == Sign::failed;
}

bool HealthEvidence::report(PoolHealth& health, const ReplicaKey& replica, const AttemptOver& over, Moment now) {
  auto sign = sign_of(over);
  if (!sign) return false;
  if (sign == Sign::empty && may_be_empty_) sign = Sign::answered;
  if (may_be_the_requests_fault(over)) {
    request_is_to_blame_ |= blamed_.serial != 0 && blamed_.serial != replica.serial;
    blamed_ = request_is_to_blame_ ? ReplicaKey() : replica;
    return false;
  }
  settle(health, now);
  // A request that was not sent has no part in the failure.
  auto caller = over.end == End::unconnected ? Caller() : caller_;
  caller.status = static_cast<std::uint16_t>(over.told_status());
  caller.refused_content = sign == Sign::client_error && refuses_the_content(over.told_status());
  if (sign == Sign::failed && over.end != End::unconnected) {
    if (std::ranges::find(failed_by_, replica.serial) != failed_by_.end()) return false;
    failed_by_.push_back(replica.serial);
  }
  health.report(replica, *sign, now, over.retry_after, caller);
  if (*sign != Sign::failed && *sign != Sign::refused && *sign != Sign::connect_timed_out) return false;
  const auto state = health.of(replica, now).state;
  return state == ReplicaState::down || state == ReplicaState::ejected;
}

void HealthEvidence::settle(PoolHealth& health, Moment now) {
  const ReplicaKey replica = std::exchange(blamed_, {});
  if (replica.serial != 0) health.report(replica, Sign::failed, now, {}, caller_);
}

}  // namespace weir::balancer::story

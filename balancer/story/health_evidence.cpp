#include "balancer/story/health_evidence.hpp"

#include <algorithm>
#include <utility>

#include "balancer/story/attempt.hpp"

namespace weir::balancer::story {
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

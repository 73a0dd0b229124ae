#include "proxy/exchange/replica_signs.hpp"

#include <cerrno>
#include <utility>

#include "proxy/fleet/replica_status.hpp"
#include "proxy/net/connect.hpp"

namespace weir::proxy::exchange {
namespace {

using balancer::Sign;

std::optional<Sign> sign_of_connecting(int error) {
  if (error == net::name_unknown || verdict_of_connecting(error).blame != Blame::replica) return std::nullopt;
  // The socket of a Unix-domain path is gone with its program, or nobody listens on it.
  if (error == ECONNREFUSED || error == ENOENT) return Sign::refused;
  // The backlog of a Unix-domain socket is full: the kernel says so at once, where TCP would wait.
  if (error == EAGAIN) return Sign::full;
  return error == ETIMEDOUT ? Sign::connect_timed_out : Sign::failed;
}

}  // namespace

std::optional<Sign> sign_of(const AttemptResult& result) {
  switch (result.end) {
    case AttemptEnd::unconnected:
      return sign_of_connecting(result.connect_error);
    case AttemptEnd::stale:
    case AttemptEnd::injection_refused:
    case AttemptEnd::client_gone:
      return std::nullopt;
    default:
      break;
  }
  // TGI and SGLang answer 200 and refuse in the first event.
  if (result.overloaded || fleet::has_no_room(result.status)) return Sign::full;
  switch (result.verdict.blame) {
    case Blame::nobody:
      return result.verdict.outcome == metrics::Outcome::client_abort ? std::nullopt : std::optional(Sign::answered);
    case Blame::client:
      return Sign::client_error;
    case Blame::replica:
      return Sign::failed;
    case Blame::weir:
      break;
  }
  return std::nullopt;
}

bool may_be_the_requests_fault(const AttemptResult& result) {
  const bool refused_in_band = result.end == AttemptEnd::refused && result.answer.in_band_error;
  return (result.status >= 500 || refused_in_band) && sign_of(result) == Sign::failed;
}

bool Signs::report(balancer::Pool& pool, const balancer::ReplicaKey& replica, const AttemptResult& result, Moment now) {
  const auto sign = sign_of(result);
  if (!sign) return false;
  if (may_be_the_requests_fault(result)) {
    if (!request_is_to_blame_ && blamed_ && blamed_->serial != replica.serial) {
      request_is_to_blame_ = true;
      pool.report(*blamed_, Sign::absolved, now, {}, caller_);
    }
    if (request_is_to_blame_) pool.report(replica, Sign::absolved, now, {}, caller_);
    blamed_ = request_is_to_blame_ ? std::nullopt : std::optional(replica);
    return false;
  }
  settle(pool, Sign::failed, now);
  // A request that was not sent has no part in it.
  const auto caller = result.end == AttemptEnd::unconnected ? balancer::Caller() : caller_;
  pool.report(replica, *sign, now, result.retry_after, caller);
  if (*sign != Sign::failed && *sign != Sign::refused && *sign != Sign::connect_timed_out) return false;
  const auto state = pool.health(replica, now).state;
  return state == balancer::ReplicaState::down || state == balancer::ReplicaState::ejected;
}

void Signs::settle(balancer::Pool& pool, Sign as, Moment now) {
  if (const auto replica = std::exchange(blamed_, std::nullopt)) pool.report(*replica, as, now, {}, caller_);
}

}  // namespace weir::proxy::exchange

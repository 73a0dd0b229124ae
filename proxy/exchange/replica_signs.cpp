#include "proxy/exchange/replica_signs.hpp"

#include <cerrno>
#include <utility>

#include "proxy/fleet/replica_status.hpp"
#include "proxy/net/connect.hpp"

namespace weir::proxy::exchange {
namespace {

using balancer::Sign;
using metrics::Outcome;

std::optional<Sign> sign_of_connecting(int error) {
  if (error == net::name_unknown || net::is_local_shortage(error)) return std::nullopt;
  // The socket of a Unix-domain path is gone with its program, or nobody listens on it.
  if (error == ECONNREFUSED || error == ENOENT) return Sign::refused;
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
  switch (result.verdict.outcome) {
    case Outcome::ok:
    case Outcome::ok_empty:
      return Sign::answered;
    case Outcome::client_error:
      return Sign::client_error;
    case Outcome::replica_refused:
      return fleet::is_full(result.status) ? Sign::failed : Sign::client_error;
    case Outcome::upstream_error:
    case Outcome::upstream_reset:
    case Outcome::truncated:
    case Outcome::timeout:
      return result.status / 100 == 4 ? Sign::client_error : Sign::failed;
    case Outcome::client_abort:
    case Outcome::rejected:
    case Outcome::bad_request:
      return std::nullopt;
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
    request_is_to_blame_ = request_is_to_blame_ || (blamed_ && blamed_->serial != replica.serial);
    blamed_ = request_is_to_blame_ ? std::nullopt : std::optional(replica);
    return false;
  }
  settle(pool, now);
  pool.report(replica, *sign, now, result.retry_after);
  if (*sign != Sign::failed && *sign != Sign::refused && *sign != Sign::connect_timed_out) return false;
  const auto state = pool.health(replica, now).state;
  return state == balancer::ReplicaState::down || state == balancer::ReplicaState::ejected;
}

void Signs::settle(balancer::Pool& pool, Moment now) {
  if (const auto replica = std::exchange(blamed_, std::nullopt)) pool.report(*replica, Sign::failed, now);
}

}  // namespace weir::proxy::exchange

// What an attempt shows of its replica's health.
#pragma once

#include <optional>

#include "balancer/health.hpp"
#include "proxy/exchange/attempt.hpp"

namespace weir::proxy::exchange {

/// Nothing, where the attempt says nothing of the replica: the client left, weir lacked something of its own, the
/// replica refused what weir had added.
std::optional<balancer::Sign> sign_of(const AttemptResult& result);

/// The replica answered with an error of its own. Where a second replica does so, too, the request is to blame.
bool may_be_the_requests_fault(const AttemptResult& result);

}  // namespace weir::proxy::exchange

// Retry-After is the work ahead of a refused request (prompts that replicas have left, prompts that wait, its own)
// divided by the rate of the last seconds in which requests waited. Until that rate is known, replicas count with the
// rate that their answers have taught, or with an assumed one, and at least 5 s are assumed: a client that comes back
// too early is refused once more, and gives up.
//
// A Pool calls it under its mutex.
#pragma once

#include "balancer/pool_state.hpp"

namespace weir::balancer {

/// Refuses a request, and tells when it may come back.
///
/// A client's Retry-After is spread by up to a half more (proxy/exchange/failure_answers), so that it comes back a
/// quarter later in the mean: it is told 0.85 of the time. With the spread that is at most 60 s, since clients of
/// OpenAI's and Anthropic's libraries follow no longer one.
Refused refuse(const PoolState& pool, Refused::Reason reason, const WaitingRequest& request);

}  // namespace weir::balancer

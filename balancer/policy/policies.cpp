#include "balancer/policy/policies.hpp"

#include "balancer/policy/least_queued_tokens.hpp"

namespace weir::balancer::policy {

std::unique_ptr<Policy> make(config::Policy policy) {
  switch (policy) {
    case config::Policy::round_robin:
      return std::make_unique<RoundRobin>();
    case config::Policy::random:
      return std::make_unique<RandomReplica>();
    case config::Policy::least_requests:
      return std::make_unique<LeastRequests>();
    case config::Policy::power_of_two:
      return std::make_unique<PowerOfTwo>();
    case config::Policy::least_queued_tokens:
      break;
  }
  return std::make_unique<LeastQueuedTokens>();
}

}  // namespace weir::balancer::policy

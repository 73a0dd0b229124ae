#include "balancer/retry_after.hpp"

#include <algorithm>
#include <cmath>

namespace weir::balancer {
namespace {

double seconds_until_done(const PoolState& pool, const WaitingRequest& request) {
  constexpr double least_assumed = 5, assumed_rate = 4000;
  double tokens = static_cast<double>(pool.waiting.tokens() + request.uncached());
  double learned = 0, those_in = 0, those_known = 0;
  for (const PoolReplica& replica : pool.replicas.named()) {
    tokens += static_cast<double>(replica.ledger.prefill_left());
    if (!replica.is_in()) continue;
    ++those_in;
    const auto rate = replica.time.prompt_rate();
    learned += rate.value_or(0);
    those_known += rate ? 1 : 0;
  }
  if (const auto rate = pool.drain_rate()) return tokens / *rate;
  const double of_one = those_known > 0 ? learned / those_known : assumed_rate;
  return std::max(least_assumed, those_in > 0 ? tokens / (of_one * those_in) : 0);
}

}  // namespace

Refused refuse(const PoolState& pool, Refused::Reason reason, const WaitingRequest& request) {
  constexpr double longest = 40, of_the_time = 0.85;
  const double told = std::clamp(std::ceil(of_the_time * seconds_until_done(pool, request)), 1.0, longest);
  return {reason, static_cast<unsigned>(told)};
}

}  // namespace weir::balancer

#include "balancer/retry_after.hpp"

#include <algorithm>
#include <cmath>

namespace weir::balancer {

Refused RetryAfter::refuse(Refused::Reason reason, const WaitingRequest& request) const noexcept {
  constexpr double longest = 40, of_the_time = 0.85;
  const double told = std::clamp(std::ceil(of_the_time * seconds_until_done(request)), 1.0, longest);
  return {reason, static_cast<unsigned>(told)};
}

void RetryAfter::note_lasted(double seconds) {
  constexpr double ends_remembered = 50;
  ends_ = std::min(ends_ + 1, ends_remembered);
  lasted_ += (seconds - lasted_) / ends_;
}

/// Returns how many requests the pool may have at a time; nothing if no limit says so.
std::optional<std::uint64_t> RetryAfter::places() const {
  std::optional<std::uint64_t> sum = 0;
  for (const PoolReplica& replica : pool_.replicas.all()) {
    if (!replica.is_in()) continue;
    if (sum && replica.spec.max_in_flight)
      *sum += *replica.spec.max_in_flight;
    else
      sum.reset();
  }
  const auto& limit = pool_.limits.max_in_flight;
  if (!limit) return sum;
  return std::min<std::uint64_t>(*limit, sum.value_or(*limit));
}

double RetryAfter::seconds_until_done(const WaitingRequest& request) const {
  constexpr double least_assumed = 5, assumed_rate = 4000, assumed_to_last = 2;
  Work before =
      pool_.waiting.ahead_of(request.fair_key, static_cast<double>(WaitingQueue::cost(request)) / request.share);
  before.add({1, request.uncached()});
  double tokens = static_cast<double>(before.tokens), learned = 0, those_in = 0, those_known = 0;
  for (const PoolReplica& replica : pool_.replicas.named()) {
    tokens += static_cast<double>(replica.ledger.prefill_left());
    if (!replica.is_in()) continue;
    ++those_in;
    const auto rate = replica.time.prompt_rate();
    learned += rate.value_or(0);
    those_known += rate ? 1 : 0;
  }
  double seconds = std::max(least_assumed, those_in > 0 ? tokens / (assumed_rate * those_in) : 0);
  if (const auto rate = pool_.drain_rate())
    seconds = tokens / *rate;
  else if (those_known > 0)
    seconds = tokens / (learned * those_in / those_known);

  const auto limit = places();
  if (!limit || *limit == 0) return seconds;
  const double free = std::max(0.0, static_cast<double>(*limit) - static_cast<double>(pool_.in_flight));
  const double ends = std::max(0.0, static_cast<double>(before.requests) - free);
  return std::max(seconds, ends * (ends_ > 0 ? lasted_ : assumed_to_last) / static_cast<double>(*limit));
}

}  // namespace weir::balancer

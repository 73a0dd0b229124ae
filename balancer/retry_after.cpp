#include "balancer/retry_after.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace weir::balancer {
namespace {

Returns::Identity identity_of(const WaitingRequest& request) {
  return {request.key, request.facts->conversation, request.bytes};
}

}  // namespace

Refused RetryAfter::refuse(Refused::Reason reason, const WaitingRequest& request) noexcept {
  constexpr double longest = 40, of_the_time = 0.85, mean_spread = 1.25, most_spread = 1.5, on_its_way = 2;
  const auto who = identity_of(request);
  returns_.pass(pool_.latest);
  const double until_done = seconds_until_done(who.key, request.uncached());
  const double told = std::clamp(std::ceil(of_the_time * until_done), 1.0, longest);
  const auto in = [this](double seconds) {
    return pool_.latest + std::chrono::duration_cast<Moment::duration>(std::chrono::duration<double>(seconds));
  };
  returns_.told(who, request.uncached(), {in(told), in(told * mean_spread), in(told * most_spread + on_its_way)});
  return {reason, static_cast<unsigned>(told)};
}

bool RetryAfter::came_back(const WaitingRequest& request) noexcept {
  returns_.pass(pool_.latest);
  return returns_.came_back(identity_of(request), pool_.latest);
}

void RetryAfter::note_lasted(double seconds) {
  constexpr double ends_remembered = 50;
  ends_ = std::min(ends_ + 1, ends_remembered);
  lasted_ += (seconds - lasted_) / ends_;
}

/// Returns the prompt tokens that the pool can finish per second, as it was seen to while it had more to do than it
/// could, or by what its replicas have taught. Nothing while neither is known: what was finished is the demand then.
std::optional<double> RetryAfter::capacity() const {
  if (const auto drained = pool_.finished.drain_rate(pool_.latest)) return drained;
  double known = 0;
  std::size_t those_known = 0, those_in = 0;
  for (const PoolReplica& replica : pool_.replicas.all()) {
    if (!replica.is_in()) continue;
    ++those_in;
    const auto rate = replica.time.prompt_rate();
    if (!rate) continue;
    known += *rate;
    ++those_known;
  }
  if (those_known == 0) return std::nullopt;
  const double learned = known * static_cast<double>(those_in) / static_cast<double>(those_known);
  return std::max(learned, pool_.finished.best_second(pool_.latest));
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

double RetryAfter::seconds_until_done(std::uint64_t key, Tokens uncached) const {
  constexpr double least_assumed = 5, assumed_prefill_rate = 4000, assumed_to_last = 2;
  constexpr Work turn{WaitingQueue::quantum / WaitingQueue::least_cost, WaitingQueue::quantum};
  Work before{1, uncached};
  before.add(returns_.of(key));
  before.add(pool_.waiting.of(key));
  Work fair = before;
  fair.add(turn);
  before.add(returns_.of_others(key, fair));
  before.add(pool_.waiting.of_others(key, fair));
  double tokens = static_cast<double>(before.tokens), assumed_rate = 0;
  for (const PoolReplica& replica : pool_.replicas.named()) {
    tokens += static_cast<double>(replica.ledger.prefill_left());
    if (replica.is_in()) assumed_rate += assumed_prefill_rate;
  }
  double seconds = least_assumed;
  if (const auto rate = capacity()) {
    seconds = tokens / *rate;
  } else {
    if (assumed_rate > 0) seconds = std::max(seconds, tokens / assumed_rate);
    if (const double best = pool_.finished.best_second(pool_.latest); best > 0)
      seconds = std::min(seconds, tokens / best);
  }

  const auto limit = places();
  if (!limit || *limit == 0) return seconds;
  const double free = std::max(0.0, static_cast<double>(*limit) - static_cast<double>(pool_.in_flight));
  const double ends = std::max(0.0, static_cast<double>(before.requests) - free);
  return std::max(seconds, ends * (ends_ > 0 ? lasted_ : assumed_to_last) / static_cast<double>(*limit));
}

}  // namespace weir::balancer

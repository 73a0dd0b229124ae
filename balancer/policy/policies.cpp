#include "balancer/policy/policies.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

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

Forecast forecast(const Job& job, const ReplicaView& replica) {
  const TimeModel& time = replica.time;
  const auto output = static_cast<double>(job.output), uncached = static_cast<double>(replica.uncached(job.prompt));
  const auto in_flight = static_cast<double>(replica.in_flight), streaming = static_cast<double>(replica.streaming);
  const double step_now = time.step_of(streaming, static_cast<double>(replica.context));

  Forecast made;
  // Prompts are computed in the order of their arrival, and something of the oldest is done.
  const auto queued = static_cast<double>(replica.prefill_left);
  const double oldest = replica.pending > 0 ? queued / replica.pending : 0;
  made.prompt_tokens = uncached + queued - std::min(oldest, time.token > 0 ? replica.worked_seconds / time.token : 0);
  made.first_token = replica.load_seconds + time.first_steps * step_now + time.token * made.prompt_tokens;

  // A replica that has been late for so long is expected to need as long again.
  const double waited = replica.pending > 0 ? replica.worked_seconds : 0;
  made.first_token += std::max(0.0, replica.loading_seconds - waited);
  const double due = replica.loading_seconds + time.token * oldest + 3 * step_now;
  // A parser may hold back the tokens of one stream.
  const double silent = replica.streaming > 1 ? replica.silent_seconds : 0;
  made.first_token += std::max({0.0, waited - due, silent - due});

  // Answers are as long as their expected rest; one that is longer than expected is not at its end either.
  constexpr double least_left = 0.25;
  const double left =
      in_flight > 0 ? std::max(static_cast<double>(replica.decode_left) / in_flight, least_left * output) : 0;
  if (replica.slots && replica.in_flight >= *replica.slots) {
    made.for_slot = true;
    const double ends = in_flight + 1 - *replica.slots;  // So many answers have to end before it begins.
    made.first_token += ends * left * step_now / std::max(1.0, streaming);
  }

  const auto prompt = static_cast<double>(job.prompt);
  const double step = time.step_of(in_flight + 1, static_cast<double>(replica.context) + prompt + output / 2);
  made.output_token = step / (1 - job.prompt_load);
  made.decode = output * made.output_token;
  made.others = (time.sequence + time.context * prompt) * in_flight * std::min(output, left) +
                time.token * (uncached + std::min(0.0, replica.waste)) * streaming;
  return made;
}

namespace {

/// Returns the replica as if it were as busy as those that are not fresh.
ReplicaView as_busy_as_others(const ReplicaView& fresh, std::span<const ReplicaView> replicas) {
  ReplicaView mean = fresh;
  std::uint32_t others = 0;
  mean.in_flight = mean.streaming = 0;
  mean.context = mean.decode_left = 0;
  for (const ReplicaView& other : replicas) {
    if (other.fresh) continue;
    ++others;
    mean.in_flight += other.in_flight;
    mean.streaming += other.streaming;
    mean.context += other.context;
    mean.decode_left += other.decode_left;
  }
  if (others == 0) return fresh;
  mean.in_flight = std::max(fresh.in_flight, mean.in_flight / others);
  mean.streaming = std::max(fresh.streaming, mean.streaming / others);
  mean.context = std::max(fresh.context, mean.context / others);
  mean.decode_left = std::max(fresh.decode_left, mean.decode_left / others);
  return mean;
}

}  // namespace

double LeastQueuedTokens::score(const Job& job, const ReplicaView& replica, double weight) {
  constexpr double after_first_token = 0.01;
  const Forecast made = forecast(job, replica);
  const double of_others = replica.eviction_seconds + replica.time.token * replica.waste;
  return (made.first_token + of_others + after_first_token * (made.decode + made.others)) * weight / replica.weight;
}

std::size_t LeastQueuedTokens::choose(const Job& job, std::span<const ReplicaView> replicas, Random& random) {
  constexpr double equal_share = 0.02, equal_seconds = 0.005, small_change = 128;
  scores_.clear();
  double least = std::numeric_limits<double>::infinity();
  busy_.clear();
  const double weight = std::ranges::max(replicas, {}, &ReplicaView::weight).weight;
  for (const ReplicaView& replica : replicas) {
    const ReplicaView seen = replica.fresh ? as_busy_as_others(replica, replicas) : replica;
    busy_.push_back(seen.in_flight + seen.recent_failures);
    least = std::min(least, scores_.emplace_back(score(job, seen, weight)));
  }
  const auto among_equals = [&](std::size_t at) {
    // What others will reuse costs nothing here either: else a replica that has just come would lose each tie.
    const double bill = static_cast<double>(replicas[at].uncached(job.prompt)) + replicas[at].waste;
    return std::tuple(scores_[at] > least * (1 + equal_share) + equal_seconds, busy_[at],
                      std::floor(bill / small_change));
  };
  std::size_t best = 0, tied = 1;
  for (std::size_t i = 1; i < replicas.size(); ++i) {
    if (among_equals(i) < among_equals(best)) {
      best = i;
      tied = 1;
    } else if (among_equals(i) == among_equals(best) && draw(random, ++tied) == 0) {
      best = i;
    }
  }
  return best;
}

}  // namespace weir::balancer::policy

// How sure it is that a candidate does worse than the replicas beside it, by events that are rare in both: failures of
// the split requests, misses of an objective, conversations that were refused or got no first token in time.
//
// If both sides are equal, each event is the candidate's with a probability of p, its share of the requests. The value
// is that of the bets of metrics/compare/statistics/betting.hpp: for equal sides it reaches 1/a at any time with a
// probability of at most a, however often somebody looks.
#pragma once

#include <cstdint>

namespace weir::balancer::rollout {

/// Requests and events of both sides.
struct Counts {
  std::uint64_t candidate = 0, candidate_bad = 0;
  std::uint64_t stable = 0, stable_bad = 0;

  /// A request of before may turn out to be an event only now. It then counts among these requests.
  Counts& operator+=(const Counts& more);
  bool operator==(const Counts&) const = default;
};

/// Events of conversations, each counted once, and for the side that was drawn for it. So its side has the intended
/// share as its probability, however many requests it has and wherever these went.
struct Drawn {
  std::uint64_t candidate = 0, stable = 0;

  Drawn& operator+=(const Drawn& more);
  bool operator==(const Drawn&) const = default;
};

/// So many requests' worth of the intended share are added to what was counted: the first few requests say little of p.
inline constexpr double requests_of_intended_share = 20;

/// Returns the evidence, above 0. `intended` is the share that the candidate is to get.
double evidence(const Counts& counts, double intended);
double evidence(const Drawn& drawn, double share);

}  // namespace weir::balancer::rollout

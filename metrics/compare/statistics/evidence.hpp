// Evidence of pairs that may be looked at after each of them: e-processes, and a confidence sequence. Both hold at
// every look together, so nobody has to say beforehand when to look.
//
// Only discordant pairs tell something: those in which one side alone has a property. Under the hypothesis that both
// sides have it equally often, such a pair is of either side with probability 1/2, whatever the requests and however
// both shares drift together (McNemar). The e-process is the likelihood of the pairs so far, averaged over the
// probabilities above that, over their likelihood under it: it reaches x with probability 1/x at most, at any moment
// (Ville's inequality; Ramdas, Gruenwald, Vovk and Shafer, "Game-theoretic statistics and safe anytime-valid
// inference", Statistical Science 38, 2023). The interval is the normal mixture of Robbins (1970).
#pragma once

#include <cstdint>

#include "metrics/compare/statistics/blocks.hpp"

namespace weir::metrics::compare::statistics {

/// Returns ln e after so many pairs towards a claim and against it. The claim is that a pair is towards it with a
/// probability above `threshold` (between 0 and 1); such probabilities are weighed by a Beta(prior, prior) cut off at
/// the threshold. It takes a microsecond. Below e = 1 the logarithm may be minus infinity.
double log_evidence(std::uint64_t towards, std::uint64_t against, double threshold, double prior);

/// The highest e of a claim so far: what was shown once stays shown.
class Evidence {
 public:
  Evidence(double threshold, double prior) : threshold_(threshold), prior_(prior) {}

  void add(bool towards);
  /// Returns 1 or more, and 1e299 for whatever is above that.
  double highest() const;

 private:
  double threshold_, prior_, highest_log_ = 0;
  std::uint64_t towards_ = 0, against_ = 0;
};

/// Returns an interval that holds b's share less a's at all moments together, with 95 %. Of `pairs`, `only_b` have a
/// property on the side b alone, `only_a` on a alone. Without pairs it is -1 to 1.
Interval share_difference(std::uint64_t only_a, std::uint64_t only_b, std::uint64_t pairs);

/// Pairs by a property that each of the two answers has or has not. The order of the pairs is that of time.
class Discordance {
 public:
  void add(bool a, bool b);

  std::uint64_t pairs() const { return pairs_; }
  std::uint64_t both() const { return both_; }
  std::uint64_t only_a() const { return only_a_; }
  std::uint64_t only_b() const { return only_b_; }
  /// The highest e of the claim that one side has the property more often than the other.
  double more_in_a() const { return more_in_a_.highest(); }
  double more_in_b() const { return more_in_b_.highest(); }
  /// b's share less a's, now.
  Interval difference() const { return share_difference(only_a_, only_b_, pairs_); }

 private:
  std::uint64_t pairs_ = 0, both_ = 0, only_a_ = 0, only_b_ = 0;
  Evidence more_in_a_{0.5, 1}, more_in_b_{0.5, 1};
};

}  // namespace weir::metrics::compare::statistics

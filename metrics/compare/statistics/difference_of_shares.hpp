// How much greater one side's share of requests is than the other's, from the numbers of requests and from how the
// blocks of a window vary.
//
// Each number has the limits that its law allows (Garwood, "Fiducial limits for the Poisson distribution", Biometrika
// 28, 1936; Clopper and Pearson, Biometrika 26, 1934), and those of the difference follow from the distances of both
// (Zou and Donner, "Construction of confidence limits about effect measures", Statistics in Medicine 27, 2008).
#pragma once

#include "metrics/compare/statistics/blocks.hpp"

namespace weir::metrics::compare::statistics {

/// The ones of a side: `ones` of `all` requests. Of pairs these are the ones that the side has alone.
struct Ones {
  double ones = 0, all = 0;

  double share() const { return ones / all; }
};

/// b's share less a's. Neither side is empty.
///
/// - In pairs the ones of both sides cancel (McNemar), so the ones that a side has alone are counted, by Poisson's law:
///   their numbers vary by no more. Without pairs each side's ones are counted by the binomial law.
///   share_difference() (evidence.hpp) is wider, and holds at any number of looks.
/// - Blocks that a drift or bursts made unlike vary by more. The delete-one-block jackknife's error counts in place of
///   that of the numbers, if it is more than chance makes it in one window of six, and its limit lies farther.
class DifferenceOfShares {
 public:
  /// `jackknife` is the difference's standard error with its degrees of freedom, from the blocks.
  DifferenceOfShares(const Ones& a, const Ones& b, bool paired, const Estimate& jackknife);

  double mean() const { return b_.share() - a_.share(); }
  /// Returns a limit that the difference lies beyond with a probability of about `level` (0 to 0.1) at most; one-sided.
  /// Without a one on both sides that is -ln(level) / n for n requests of the side b. It takes some 50 us.
  double upper(double level) const;
  double lower(double level) const;

 private:
  Ones a_, b_;
  bool paired_;
  Estimate jackknife_;
};

/// Returns the limits that hold over so many looks together, with 95 %.
Interval interval_of(const DifferenceOfShares& difference, unsigned looks = 1);

}  // namespace weir::metrics::compare::statistics

#include "metrics/compare/statistics/difference_of_shares.hpp"

#include <algorithm>
#include <boost/math/special_functions/beta.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>

#include "metrics/compare/statistics/student_t.hpp"

namespace weir::metrics::compare::statistics {
namespace {

/// By chance the variance of ten blocks is above so many times that of the numbers in 18 of 100 windows.
constexpr double beyond_chance = 1.4;

/// Returns the probability that so many ones or fewer come, of which a share of all requests is expected. `ones` may be
/// -1.
double at_most(double ones, double all, double share, bool paired) {
  if (ones < 0) return 0;
  if (paired) return boost::math::gamma_q(ones + 1, all * share);
  return ones < all ? boost::math::ibetac(ones + 1, all - ones, share) : 1;
}

/// Returns the greatest share that a side's ones leave open at a level. Of the probability of as many ones as there
/// are, `weight` is counted.
double highest_share(const Ones& side, double weight, double level, bool paired) {
  double low = side.share(), high = (side.ones + 20 * std::sqrt(side.ones + 1) + 20) / side.all;
  if (!paired) high = std::min(high, 1.0);
  for (int step = 0; step < 40; ++step) {
    const double middle = (low + high) / 2;
    const double left_open = (1 - weight) * at_most(side.ones - 1, side.all, middle, paired) +
                             weight * at_most(side.ones, side.all, middle, paired);
    (left_open > level ? low : high) = middle;
  }
  return high;
}

/// Returns the least share.
double lowest_share(const Ones& side, double level, bool paired) {
  if (side.ones == 0) return 0;
  if (paired) return boost::math::gamma_p_inv(side.ones, level) / side.all;
  return boost::math::ibeta_inv(side.ones, side.all - side.ones + 1, level);
}

/// Returns how far the difference may lie above what was seen, by the numbers alone. An exact limit counts all of the
/// probability of b's number, and is too careful between its steps. Where a of a pair has ones as well, their number
/// blurs the steps: three quarters suffice to keep the level, as sums over both laws show.
double reach_above(const Ones& a, const Ones& b, bool paired, double level) {
  const double weight = paired && a.ones > 0 ? 0.75 : 1;
  return std::hypot(highest_share(b, weight, level, paired) - b.share(), a.share() - lowest_share(a, level, paired));
}

/// Returns the variance that the difference has by the numbers. Half a one more on either side keeps it above 0.
double variance_of(const Ones& a, const Ones& b, bool paired) {
  const auto of = [&](const Ones& side) {
    return (side.ones + 0.5) * (paired ? 1 : 1 - side.share()) / (side.all * side.all);
  };
  return of(a) + of(b);
}

}  // namespace

DifferenceOfShares::DifferenceOfShares(const Ones& a, const Ones& b, bool paired, const Estimate& jackknife)
    : a_(a), b_(b), paired_(paired), jackknife_(jackknife) {}

double DifferenceOfShares::upper(double level) const {
  double reach = reach_above(a_, b_, paired_, level);
  const double error = jackknife_.standard_error;
  if (error * error > beyond_chance * variance_of(a_, b_, paired_))
    reach = std::max(reach, t_two_sided(1 - 2 * level, jackknife_.degrees) * error);
  return std::min(mean() + reach, 1.0);
}

double DifferenceOfShares::lower(double level) const {
  return -DifferenceOfShares(b_, a_, paired_, jackknife_).upper(level);
}

Interval interval_of(const DifferenceOfShares& difference, unsigned looks) {
  const double level = 0.025 / looks;
  return {difference.lower(level), difference.upper(level)};
}

}  // namespace weir::metrics::compare::statistics

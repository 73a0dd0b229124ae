#include "metrics/compare/statistics/evidence.hpp"

#include <algorithm>
#include <boost/math/special_functions/beta.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>

namespace weir::metrics::compare::statistics {
namespace {

/// Returns the logarithm of the integral of q^(x - 1) (1 - q)^(y - 1) from `from` to 1.
double log_beta_above(double from, double x, double y) {
  const double whole = boost::math::lgamma(x) + boost::math::lgamma(y) - boost::math::lgamma(x + y);
  return whole + std::log(boost::math::ibetac(x, y, from));
}

}  // namespace

double log_evidence(std::uint64_t towards, std::uint64_t against, double threshold, double prior) {
  const auto t = static_cast<double>(towards), g = static_cast<double>(against);
  return log_beta_above(threshold, prior + t, prior + g) - log_beta_above(threshold, prior, prior) -
         t * std::log(threshold) - g * std::log1p(-threshold);
}

void Evidence::add(bool towards) {
  ++(towards ? towards_ : against_);
  // Where the share of pairs towards the claim is not above the threshold, no probability above it is likelier than the
  // threshold, so e is below 1.
  const auto all = static_cast<double>(towards_ + against_);
  if (!towards || static_cast<double>(towards_) <= threshold_ * all) return;
  highest_log_ = std::max(highest_log_, log_evidence(towards_, against_, threshold_, prior_));
}

double Evidence::highest() const {
  constexpr double most = 1e299;
  return std::min(std::exp(std::min(highest_log_, 700.0)), most);
}

Interval share_difference(std::uint64_t only_a, std::uint64_t only_b, std::uint64_t pairs) {
  if (pairs == 0) return {-1, 1};
  // The sum of squares is the number of discordant pairs. Ten more keep the first few pairs, whose variance is not seen
  // yet, from looking sure; a mixture of scale ten is narrowest where some ten pairs are discordant.
  constexpr double scale = 10, level = 0.05;
  const auto a = static_cast<double>(only_a), b = static_cast<double>(only_b), n = static_cast<double>(pairs);
  const double variance = a + b + scale;
  const double reach =
      std::sqrt((variance + scale) * (2 * std::log(1 / level) + std::log((variance + scale) / scale))) / n;
  const double difference = (b - a) / n;
  return {std::max(difference - reach, -1.0), std::min(difference + reach, 1.0)};
}

void Discordance::add(bool a, bool b) {
  ++pairs_;
  both_ += a && b;
  if (a == b) return;
  ++(b ? only_b_ : only_a_);
  more_in_b_.add(b);
  more_in_a_.add(a);
}

}  // namespace weir::metrics::compare::statistics

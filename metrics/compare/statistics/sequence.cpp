#include "metrics/compare/statistics/sequence.hpp"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <vector>

#include "metrics/compare/statistics/measured.hpp"

namespace weir::metrics::compare::statistics {
namespace {

/// The number of minutes at which the interval is narrowest.
constexpr double narrowest_at = 30;

double z_two_sided(double level) {
  return boost::math::quantile(boost::math::complement(boost::math::normal(), level / 2));
}

double reach_of(double variance, double minutes, double level) {
  if (variance <= 0) return 0;
  const double twice = 2 * std::log(1 / level);
  const double mix = variance * narrowest_at / (twice + std::log1p(twice)), known = variance * minutes;
  return std::sqrt((known + mix) * (twice + std::log((known + mix) / mix))) / minutes;
}

}  // namespace

double Sequence::reach_after(double more, double level) const {
  const double widened = t_two_sided(1 - level, degrees) / z_two_sided(level);
  const double own = minutes * standard_error * standard_error * widened * widened;
  return reach_of(std::max(own, history_variance), minutes * more, level);
}

double Sequence::reach(double level) const { return reach_after(1, level); }

Interval interval_of(const Sequence& sequence) {
  const double reach = sequence.reach(0.05);
  return {sequence.mean - reach, sequence.mean + reach};
}

double p_value_beyond(double beyond, const Sequence& sequence) {
  if (!(beyond > 0)) return 1;
  double none = std::log(1e-12), all = std::log(0.9999);  // Logarithms of levels.
  if (sequence.reach(std::exp(none)) < beyond) return 1e-12;
  if (sequence.reach(std::exp(all)) >= beyond) return 1;
  for (int i = 0; i < 30; ++i) {
    const double middle = (none + all) / 2;
    (sequence.reach(std::exp(middle)) < beyond ? all : none) = middle;
  }
  return std::exp(all);
}

RatioSums& RatioSums::operator+=(const RatioSums& other) {
  a += other.a;
  b += other.b;
  count_a += other.count_a;
  count_b += other.count_b;
  return *this;
}

RatioSums RatioSums::operator-(const RatioSums& other) const {
  return {a - other.a, b - other.b, count_a - other.count_a, count_b - other.count_b};
}

std::optional<double> figure_of(const RatioSums& sums, Scale scale) {
  // Sums of which all parts but one were taken away are 0 but for rounding.
  constexpr double nothing = 1e-9;
  if (sums.count_a <= nothing || sums.count_b <= nothing) return std::nullopt;
  const double a = sums.mean_a(), b = sums.mean_b();
  if (scale == Scale::difference) return b - a;
  return a > 0 && b > 0 ? std::optional(std::log(b / a)) : std::nullopt;
}

std::optional<Estimate> jackknife(std::span<const RatioSums> parts, Scale scale) {
  RatioSums whole;
  for (const RatioSums& part : parts) whole += part;
  const auto all = figure_of(whole, scale);
  if (!all || parts.size() < 2) return std::nullopt;
  const auto n = static_cast<double>(parts.size());
  std::vector<double> without;
  double sum = 0;
  for (const RatioSums& part : parts) {
    const auto one = figure_of(whole - part, scale);
    if (!one) return std::nullopt;
    without.push_back(*one);
    sum += *one;
  }
  double squares = 0;
  for (const double one : without) squares += (one - sum / n) * (one - sum / n);
  return Estimate{*all, std::sqrt(squares * (n - 1) / n), n - 1};
}

}  // namespace weir::metrics::compare::statistics

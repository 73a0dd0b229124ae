#include "metrics/compare/statistics/intervals.hpp"

#include <algorithm>
#include <array>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "metrics/moment.hpp"

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

namespace {

double sum(std::span<const double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

/// Returns value +- t * error.
Measured with_error(double value, double error, std::size_t degrees) {
  if (degrees == 0) return {value, std::nullopt};
  const double t = t_two_sided(0.95, static_cast<double>(degrees));
  return {value, Interval{value - t * error, value + t * error}};
}

}  // namespace

double t_two_sided(double confidence, double degrees) {
  return boost::math::quantile(boost::math::complement(boost::math::students_t(degrees), (1 - confidence) / 2));
}

std::optional<Measured> measured(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  const auto n = static_cast<double>(values.size());
  const double mean = sum(values) / n;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return with_error(mean, values.size() > 1 ? std::sqrt(squares / (n - 1) / n) : 0, values.size() - 1);
}

std::optional<Line> line_through(std::span<const double> x, std::span<const double> y) {
  if (x.size() < 3) return std::nullopt;
  const auto n = static_cast<double>(x.size());
  const double mean_x = sum(x) / n, mean_y = sum(y) / n;
  double xx = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  if (xx <= 0) return std::nullopt;
  const double slope = xy / xx, intercept = mean_y - slope * mean_x;
  double squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double off = y[i] - intercept - slope * x[i];
    squares += off * off;
  }
  const double variance = squares / (n - 2);
  return Line{with_error(slope, std::sqrt(variance / xx), x.size() - 2),
              with_error(intercept, std::sqrt(variance * (1 / n + mean_x * mean_x / xx)), x.size() - 2)};
}

namespace {

/// A value of a unit, and how many units have it.
struct Value {
  double value = 0, count = 0;
};
using Values = std::array<Value, 3>;

/// Returns ln of the mean wealth of those who bet that the values are above 0 on average.
double log_wealth(const Values& values) {
  constexpr std::size_t people = 16;
  double most_lost = 0;
  for (const Value& one : values) most_lost = std::max(most_lost, -one.value);
  if (most_lost <= 0) return std::numeric_limits<double>::infinity();  // No value can be below.
  std::array<double, people> logs{};
  for (std::size_t i = 0; i < people; ++i) {
    // Small parts tell small differences of frequent events, and large ones tell rare events.
    const double root = (static_cast<double>(i) + 0.5) / people, part = root * root;
    for (const Value& one : values)
      if (one.count > 0) logs[i] += one.count * std::log1p(part * one.value / most_lost);
  }
  const double greatest = *std::ranges::max_element(logs);
  double sum = 0;
  for (const double one : logs) sum += std::exp(one - greatest);
  return greatest + std::log(sum / people);
}

/// Returns the weight of a unit that b has, and of one that a has.
std::array<double, 2> weights_of(const Events& events) {
  if (!events.share) return {1, 1};
  const double share = std::clamp(*events.share, 1e-6, 1 - 1e-6);
  return {1 / share, 1 / (1 - share)};
}

double log_more_than(const Events& events, double points) {
  const auto [b, a] = weights_of(events);
  return log_wealth({{{b - points, events.b},
                      {-a - points, events.a},
                      {-points, std::max(0.0, events.units - events.a - events.b)}}});
}

/// Returns the greatest difference between `least` and 1 against which there is evidence.
double lower_limit(const Events& events) {
  const double needed = std::log(40);
  double low = -1, high = 1;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    (log_more_than(events, middle) >= needed ? low : high) = middle;
  }
  return low;
}

}  // namespace

Events drawn_events(double a, double b, double units, double share) { return {a, b, units, share, 1 - share}; }

double log_evidence_of_more(const Events& events) { return log_more_than(events, 0); }

double log_evidence_below(const Events& events, double ratio, double points) {
  const auto [b, a] = weights_of(events);
  return log_wealth({{{points - b, events.b},
                      {points + ratio * a, events.a},
                      {points, std::max(0.0, events.units - events.a - events.b)}}});
}

Interval difference_of(const Events& events) {
  if (events.units <= 0) return {-1, 1};
  return {lower_limit(events), -lower_limit(events.exchanged())};
}

namespace {

template <class Quantile>
Distribution distribution(std::uint64_t count, Quantile&& quantile) {
  Distribution found;
  found.count = count;
  if (count == 0) return found;
  found.p50 = quantile(0.5);
  found.p90 = quantile(0.9);
  found.p95 = quantile(0.95);
  if (count >= least_for_p99) found.p99 = quantile(0.99);
  return found;
}

}  // namespace

Distribution distribution_of(std::span<float> values) {
  return distribution(values.size(), [&](double q) { return quantile(values, q); });
}

void add(GapCounts& counts, std::span<const record::GapSketch::Bin> bins) {
  for (const auto& bin : bins) counts[bin.index] += bin.count;
}

static std::uint64_t count_of(const GapCounts& counts) {
  std::uint64_t count = 0;
  for (const auto& [bin, gaps] : counts) count += gaps;
  return count;
}

double quantile_of_gaps(const GapCounts& counts, double q) {
  return quantile_by_number(count_of(counts), q, [&](std::uint64_t number) {
    std::uint64_t up_to_here = 0;
    const auto found =
        std::ranges::find_if(counts, [&](const auto& bin) { return (up_to_here += bin.second) > number; });
    return seconds(record::GapSketch::middle_of(found->first));
  });
}

Distribution distribution_of(const GapCounts& counts) {
  return distribution(count_of(counts), [&](double q) { return quantile_of_gaps(counts, q); });
}

}  // namespace weir::metrics::compare::statistics

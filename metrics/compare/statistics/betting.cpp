#include "metrics/compare/statistics/betting.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace weir::metrics::compare::statistics {
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

}  // namespace weir::metrics::compare::statistics

#include "metrics/compare/statistics/blocks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "metrics/compare/statistics/quantile.hpp"
#include "metrics/compare/statistics/student_t.hpp"

namespace weir::metrics::compare::statistics {
namespace {

constexpr double outside = 0.05;  ///< Of the interval.
constexpr std::int64_t minute_us = 60'000'000;
constexpr double none = std::numeric_limits<double>::quiet_NaN();

/// Returns the values by the step of time that `step_of` says.
template <class StepOf>
std::vector<std::vector<double>> values_by(std::size_t steps, std::span<const Point> points, const Window& window,
                                           StepOf step_of) {
  std::vector<std::vector<double>> values(steps);
  for (const Point& point : points) {
    if (window.holds(point.at_us) && std::isfinite(point.value)) values[step_of(point.at_us)].push_back(point.value);
  }
  return values;
}

std::vector<std::vector<double>> values_by_block(std::span<const Point> points, const Window& window) {
  return values_by(block_count, points, window, [&](std::int64_t at_us) { return window.block_of(at_us); });
}

}  // namespace

std::size_t Window::block_of(std::int64_t at_us) const {
  const auto length = static_cast<std::uint64_t>(to_us - from_us);
  const auto since = static_cast<std::uint64_t>(at_us - from_us);
  return static_cast<std::size_t>(since * block_count / length);
}

std::int64_t Window::begin_of(std::size_t block) const {
  // Rounded up, so that block_of(begin_of(i)) is i.
  const auto length = static_cast<std::uint64_t>(to_us - from_us);
  return from_us + static_cast<std::int64_t>((block * length + block_count - 1) / block_count);
}

BlockValues block_medians(std::span<const Point> points, const Window& window) {
  BlockValues blocks;
  auto values = values_by_block(points, window);
  for (std::size_t i = 0; i < block_count; ++i) blocks[i] = median(std::span(values[i]));
  return blocks;
}

std::optional<Estimate> estimate_of(const BlockValues& blocks) {
  if (!std::all_of(blocks.begin(), blocks.end(), [](double value) { return std::isfinite(value); })) {
    return std::nullopt;
  }
  constexpr auto n = static_cast<double>(block_count);
  const double middle = mean_of(blocks);
  double squares = 0;
  for (const double value : blocks) squares += (value - middle) * (value - middle);
  return Estimate{middle, std::sqrt(squares / (n - 1) / n), n - 1};
}

Interval interval_of(const Estimate& estimate, unsigned looks) {
  const double reach = t_two_sided(1 - outside / looks, estimate.degrees) * estimate.standard_error;
  return {estimate.mean - reach, estimate.mean + reach};
}

double mean_of(const BlockValues& blocks) {
  double sum = 0;
  std::size_t count = 0;
  for (const double value : blocks) {
    if (!std::isfinite(value)) continue;
    sum += value;
    ++count;
  }
  return count ? sum / static_cast<double>(count) : none;
}

double needed_block_s(double least, double slower_p99_s) {
  return std::isfinite(slower_p99_s) ? std::max(least, 2 * slower_p99_s) : least;
}

std::vector<double> minute_medians(std::span<const Point> points, const Window& window) {
  // The last minute counts only if it is whole.
  const Window whole{window.from_us, window.to_us - (window.to_us - window.from_us) % minute_us};
  const auto minutes = static_cast<std::size_t>((whole.to_us - whole.from_us) / minute_us);
  auto values = values_by(minutes, points, whole, [&](std::int64_t at_us) {
    return static_cast<std::size_t>((at_us - whole.from_us) / minute_us);
  });
  std::vector<double> medians;
  medians.reserve(minutes);
  for (auto& minute : values) medians.push_back(median(std::span(minute)));
  return medians;
}

BlockValues block_means(std::span<const double> minutes) {
  BlockValues blocks;
  for (std::size_t i = 0; i < block_count; ++i) {
    const std::size_t begin = i * minutes.size() / block_count, end = (i + 1) * minutes.size() / block_count;
    double sum = 0;
    std::size_t count = 0;
    for (const double value : minutes.subspan(begin, end - begin)) {
      if (!std::isfinite(value)) continue;
      sum += value;
      ++count;
    }
    blocks[i] = count ? sum / static_cast<double>(count) : none;
  }
  return blocks;
}

double lag_one_autocorrelation(std::span<const double> values) {
  double sum = 0;
  std::size_t count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    sum += value;
    ++count;
  }
  if (count < 3) return none;
  const double middle = sum / static_cast<double>(count);
  double squares = 0, products = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    squares += (values[i] - middle) * (values[i] - middle);
    if (i + 1 < values.size() && std::isfinite(values[i + 1])) {
      products += (values[i] - middle) * (values[i + 1] - middle);
    }
  }
  return squares > 0 ? products / squares : none;
}

}  // namespace weir::metrics::compare::statistics

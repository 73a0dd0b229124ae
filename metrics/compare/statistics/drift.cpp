#include "metrics/compare/statistics/drift.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace weir::metrics::compare::statistics {
namespace {

constexpr std::array<std::size_t, 2> batch_lengths{5, 30};
constexpr std::size_t least_batches = 16;  ///< Of the longest.
constexpr double none = std::numeric_limits<double>::quiet_NaN();

/// Squares of the distances from the mean of each series, and their degrees of freedom.
struct Spread {
  double squares = 0;
  std::size_t batches = 0, degrees = 0;

  void add(const std::vector<double>& means) {
    if (means.empty()) return;
    double sum = 0;
    for (const double mean : means) sum += mean;
    const double middle = sum / static_cast<double>(means.size());
    for (const double mean : means) squares += (mean - middle) * (mean - middle);
    batches += means.size();
    degrees += means.size() - 1;
  }
};

std::vector<double> batch_means(const Minutes& minutes, std::size_t length) {
  std::vector<double> means;
  for (std::size_t begin = 0; begin + length <= minutes.size(); begin += length) {
    double sum = 0;
    std::size_t known = 0;
    for (std::size_t i = begin; i < begin + length; ++i) {
      if (!std::isfinite(minutes[i])) continue;
      sum += minutes[i];
      ++known;
    }
    if (known > 0 && 2 * known >= length) means.push_back(sum / static_cast<double>(known));
  }
  return means;
}

}  // namespace

std::size_t known_minutes(std::span<const double> minutes) {
  return static_cast<std::size_t>(std::ranges::count_if(minutes, [](double value) { return std::isfinite(value); }));
}

std::optional<double> long_run_variance(std::span<const Minutes> series) {
  double greatest = 0;
  for (const std::size_t length : batch_lengths) {
    Spread spread;
    for (const Minutes& minutes : series) spread.add(batch_means(minutes, length));
    if (length == batch_lengths.back() && spread.batches < least_batches) return std::nullopt;
    if (spread.degrees == 0) return std::nullopt;
    greatest = std::max(greatest, static_cast<double>(length) * spread.squares / static_cast<double>(spread.degrees));
  }
  return greatest;
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

#include "metrics/compare/statistics/change.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace weir::metrics::compare::statistics {
namespace {

constexpr std::size_t most_groups = 240;

/// Known values in order of time, or the means of groups of them.
struct Group {
  std::size_t first = 0;  ///< The place of its first value.
  double mean = 0;
};

std::vector<Group> grouped(std::span<const double> values) {
  std::vector<Group> known;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) known.push_back({i, values[i]});
  }
  const std::size_t size = (known.size() + most_groups - 1) / most_groups;
  if (size <= 1) return known;
  std::vector<Group> groups;
  for (std::size_t i = 0; i + size <= known.size(); i += size) {
    double sum = 0;
    for (std::size_t j = i; j < i + size; ++j) sum += known[j].mean;
    groups.push_back({known[i].first, sum / static_cast<double>(size)});
  }
  return groups;
}

}  // namespace

std::optional<Change> change_in(std::span<const double> values, double least) {
  const std::vector<Group> groups = grouped(values);
  const std::size_t n = groups.size();
  if (n < least_for_a_change) return std::nullopt;
  std::vector<double> sums(n + 1, 0);  // Of the first k values.
  for (std::size_t i = 0; i < n; ++i) sums[i + 1] = sums[i] + groups[i].mean;
  const auto mean_of = [&](std::size_t from, std::size_t to) {
    return (sums[to] - sums[from]) / static_cast<double>(to - from);
  };
  const std::size_t shortest = std::max<std::size_t>(5, n / 10);
  const auto length = static_cast<double>(n);
  Change best;
  for (std::size_t k = shortest; k + shortest <= n; ++k) {
    const double before = mean_of(0, k), after = mean_of(k, n);
    double squares = 0;  // Of the CUSUMs of both parts.
    for (std::size_t t = 1; t <= k; ++t) {
      const double cusum = sums[t] - static_cast<double>(t) * before;
      squares += cusum * cusum;
    }
    for (std::size_t t = k; t < n; ++t) {
      const double cusum = sums[n] - sums[t] - static_cast<double>(n - t) * after;
      squares += cusum * cusum;
    }
    const double difference =
        static_cast<double>(k) * static_cast<double>(n - k) / std::pow(length, 1.5) * (after - before);
    const double numerator = difference * difference, denominator = squares / (length * length);
    const double statistic = denominator > 0 ? numerator / denominator
                             : numerator > 0 ? std::numeric_limits<double>::infinity()
                                             : 0.0;
    if (statistic > best.statistic) best = {groups[k].first, before, after, statistic};
  }
  if (best.statistic <= change_limit || std::abs(best.after - best.before) <= least) return std::nullopt;
  return best;
}

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

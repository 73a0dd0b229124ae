#include "metrics/compare/statistics/confidence_sequence.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace weir::metrics::compare::statistics {
namespace {

constexpr std::array<std::size_t, 2> batch_lengths{5, 30};
constexpr std::size_t least_batches = 16;  ///< Of the longest.
constexpr double alpha = 0.05;
/// The interval is narrowest, for its number of minutes, at about so many.
constexpr double tuned_for_minutes = 30;

/// Returns the variance that is mixed over: with it the interval is about as narrow as can be at tuned_for_minutes.
double mixed(double variance) {
  const double twice_log = 2 * std::log(1 / alpha);
  return variance * tuned_for_minutes / (twice_log + std::log1p(twice_log));
}

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

std::optional<Sequence> sequence_of(std::span<const double> minutes, double history_variance,
                                    const std::optional<Estimate>& blocks) {
  Sequence sequence{0, 0, history_variance};
  for (const double minute : minutes) {
    if (!std::isfinite(minute)) continue;
    sequence.mean += minute;
    ++sequence.minutes;
  }
  if (sequence.minutes < least_minutes) return std::nullopt;
  sequence.mean /= sequence.minutes;
  if (blocks)
    sequence.variance = std::max(history_variance, sequence.minutes * blocks->standard_error * blocks->standard_error);
  return sequence;
}

Interval interval_of(const Sequence& sequence) {
  const double known = sequence.variance * sequence.minutes, mix = mixed(sequence.variance);
  if (known <= 0) return {sequence.mean, sequence.mean};
  const double reach =
      std::sqrt((known + mix) * (2 * std::log(1 / alpha) + std::log((known + mix) / mix))) / sequence.minutes;
  return {sequence.mean - reach, sequence.mean + reach};
}

double p_value_beyond(double beyond, const Sequence& sequence) {
  if (beyond <= 0) return 1;
  const double known = sequence.variance * sequence.minutes, mix = mixed(sequence.variance);
  if (known <= 0) return 0;
  const double sum = beyond * sequence.minutes;
  const double log_e = std::log(mix / (known + mix)) / 2 + sum * sum / (2 * (known + mix));
  return std::min(1.0, std::exp(-log_e));
}

}  // namespace weir::metrics::compare::statistics

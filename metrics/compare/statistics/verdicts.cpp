#include "metrics/compare/statistics/verdicts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace weir::metrics::compare::statistics {
namespace {

constexpr double level = 0.05;

Finding direction(Figure figure, double effect) {
  const bool more = effect > 0;
  if (figure == Figure::output_tokens) return more ? Finding::longer : Finding::shorter;
  return more ? Finding::worse : Finding::better;
}

/// A one-sided limit at `level` is one end of a two-sided interval at twice that.
bool is_below(const Sequence& sequence, double limit, double more) {
  return sequence.mean + sequence.reach_after(more, 2 * level) < limit;
}

/// True if `equivalent` would be the word after so many times the minutes, or `not_worse` where that is asked.
bool would_pass(const Effect& effect, double more) {
  const Sequence& sequence = *effect.sequence;
  if (effect.worse_margin && !effect.by_estimate) return is_below(sequence, *effect.worse_margin, more);
  if (effect.worse_margin) return sequence.mean < *effect.worse_margin;
  const double reach = effect.by_estimate ? 0 : sequence.reach_after(more, level);
  return sequence.mean - reach >= effect.margin.low && sequence.mean + reach <= effect.margin.high;
}

}  // namespace

double shown(Figure figure, double effect) { return figure == Figure::stalls ? effect : std::expm1(effect); }

Interval shown(Figure figure, const Interval& interval) {
  return {shown(figure, interval.low), shown(figure, interval.high)};
}

bool is_below_worse_margin(const Effect& effect) {
  if (!effect.sequence || !effect.worse_margin || effect.sequence->minutes < least_minutes_to_pass) return false;
  if (effect.by_estimate) return effect.sequence->mean < *effect.worse_margin;
  return is_below(*effect.sequence, *effect.worse_margin, 1);
}

std::optional<double> times_until_known(const Effect& effect, std::size_t figures, double minutes_to_claim) {
  constexpr double most = 300, step = 1.05;
  if (!effect.sequence) return std::nullopt;
  const Sequence& sequence = *effect.sequence;
  const double to_pass = least_minutes_to_pass / sequence.minutes;
  const bool is_near = std::abs(sequence.mean) < effect.least_claim;
  const double to_claim = is_near ? minutes_to_claim / sequence.minutes : 0;
  const double beyond = std::max(sequence.mean - effect.margin.high, effect.margin.low - sequence.mean);
  for (double more = 1; more < most; more *= step) {
    const bool is_beyond = beyond > sequence.reach_after(more, level / static_cast<double>(figures));
    // An effect that is beyond its margin and may be a drift does not pass either.
    const bool passes = would_pass(effect, more) && more >= to_pass && !(is_near && is_beyond && sequence.mean > 0);
    const bool claims = more >= to_claim && is_beyond;
    if (passes || claims) return more;
  }
  return std::nullopt;
}

double p_value(const Effect& effect) {
  if (!effect.sequence) return std::numeric_limits<double>::quiet_NaN();
  const double mean = effect.sequence->mean;
  return p_value_beyond(std::max(mean - effect.margin.high, effect.margin.low - mean), *effect.sequence);
}

std::vector<bool> holm(std::span<const double> p_values, double at_level) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < p_values.size(); ++i) {
    if (!std::isnan(p_values[i])) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](auto x, auto y) { return p_values[x] < p_values[y]; });
  std::vector<bool> rejected(p_values.size(), false);
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    if (p_values[order[rank]] > at_level / static_cast<double>(order.size() - rank)) break;
    rejected[order[rank]] = true;
  }
  return rejected;
}

std::vector<Decision> decide(std::span<const Effect> family) {
  std::vector<double> p_values;
  for (const Effect& effect : family) p_values.push_back(p_value(effect));
  const std::vector<bool> rejected = holm(p_values, level);
  std::vector<Decision> decisions;
  for (std::size_t i = 0; i < family.size(); ++i) {
    const Effect& effect = family[i];
    Decision& decision = decisions.emplace_back();
    decision.p = p_values[i];
    if (!effect.sequence) continue;
    const double mean = effect.sequence->mean;
    const Interval interval = effect.by_estimate ? Interval{mean, mean} : interval_of(*effect.sequence);
    decision.too_near = rejected[i] && std::abs(mean) < effect.least_claim;
    if (rejected[i] && !decision.too_near) {
      decision.finding = direction(effect.figure, mean);
    } else if (decision.too_near && mean > 0) {
      // More than the margin, and perhaps a drift: neither is known.
    } else if (effect.sequence->minutes >= least_minutes_to_pass && interval.low >= effect.margin.low &&
               interval.high <= effect.margin.high) {
      decision.finding = Finding::equivalent;
    } else if (is_below_worse_margin(effect)) {
      decision.finding = Finding::not_worse;
    } else {
      decision.held_back = !rejected[i] && decision.p <= level;
    }
  }
  return decisions;
}

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

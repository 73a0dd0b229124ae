#include "proxy/live/seconds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "metrics/compare/statistics/intervals.hpp"

namespace weir::proxy::live {

std::size_t Seconds::place(std::size_t column, std::size_t back) const {
  const auto deep = std::min(column, drawn_), flat = column - deep;
  return deep * (presence_.wide ? window : minute) + flat * minute + (second_ - back) % depth(column);
}

void Seconds::step(std::size_t passed) {
  if (passed == 0 || (second_ == 0 && !presence_.put)) return;  // A row begins with its first put().
  if (!std::exchange(presence_.put, false)) {                   // What it did meanwhile belongs to no second.
    look_anew();
    std::ranges::fill(now_, 0.0F);
  }
  presence_.absent += passed;
  second_ += passed;
  known_ += passed;
  for (std::size_t column = 0; column < now_.size(); ++column)
    for (std::size_t back = 0; back < std::min({passed, depth(column), second_ + 1}); ++back)
      numbers_[place(column, back)] = unknown;
}

void Seconds::put() {
  const bool begins = !std::exchange(presence_.put, true);
  presence_.absent = 0;
  for (std::size_t column = 0; column < now_.size(); ++column) {
    if (begins) at(column) = 0;
    if (now_[column] != 0) at(column) += std::exchange(now_[column], 0.0F);
  }
}

void Seconds::follow(std::size_t column, double counter, double unit) {
  const double before = std::exchange(before_[column], counter);
  if (counter > before) at(column) += static_cast<float>((counter - before) / unit);
}

void Seconds::look_anew() { std::ranges::fill(before_, unknown); }

void Seconds::begin_anew() {
  known_ = 1;
  presence_.put = false;
  look_anew();
  std::ranges::fill(now_, 0.0F);
}

void Seconds::clear(std::size_t column) {
  for (std::size_t back = 0; back < std::min(depth(column), second_ + 1); ++back)
    numbers_[place(column, back)] = back == 0 ? 0 : unknown;
}

std::optional<double> Seconds::last(std::size_t column) const {
  const float number = numbers_[place(column, 0)];
  return std::isnan(number) ? std::nullopt : std::optional<double>(number);
}

double Seconds::sum(std::size_t column, std::size_t seconds) const {
  double sum = 0;
  for (std::size_t back = 0; back < std::min({seconds, minute, known_}); ++back)
    if (const float number = numbers_[place(column, back)]; !std::isnan(number)) sum += number;
  return sum;
}

std::vector<float> Seconds::numbers(std::size_t column, std::size_t most) const {
  std::vector<float> all;
  for (auto back = std::min({most, depth(column), second_ + 1}); back-- > 0;)
    all.push_back(numbers_[place(column, back)]);
  return all;
}

std::optional<double> Seconds::peak(std::size_t column) const {
  std::optional<double> peak;
  for (const float number : numbers(column, window))
    if (!std::isnan(number)) peak = std::max<double>(peak.value_or(number), number);
  return peak;
}

void Seconds::set_wide(bool wide) {
  if (wide == presence_.wide) return;
  std::vector<std::vector<float>> kept;
  for (std::size_t column = 0; column < now_.size(); ++column) kept.push_back(numbers(column, minute));
  presence_.wide = wide;
  numbers_.assign(drawn_ * (wide ? window : minute) + (now_.size() - drawn_) * minute, unknown);
  numbers_.shrink_to_fit();
  for (std::size_t column = 0; column < kept.size(); ++column)
    for (std::size_t back = 0; back < kept[column].size(); ++back)
      numbers_[place(column, back)] = kept[column][kept[column].size() - 1 - back];
}

namespace {

std::optional<double> quantile_of(std::vector<float>& values, double q, std::size_t least) {
  if (values.size() < least) return std::nullopt;
  return metrics::compare::statistics::quantile(std::span(values), q);
}

}  // namespace

void Latencies::add(std::optional<double> ttft, std::optional<double> tpot, metrics::Moment now) {
  if (!ttft && !tpot) return;
  constexpr auto unknown = std::numeric_limits<double>::quiet_NaN();
  const One one{now, static_cast<float>(ttft.value_or(unknown)), static_cast<float>(tpot.value_or(unknown))};
  if (ring_.size() < most) {
    ring_.push_back(one);
  } else {
    ring_[next_] = one;
    next_ = (next_ + 1) % most;
  }
}

Latencies::Quantiles Latencies::quantiles(metrics::Moment now, std::chrono::seconds back) const {
  std::vector<float> ttft, tpot;
  for (std::size_t i = 1; i <= ring_.size(); ++i) {  // The latest first.
    const auto& one = ring_[(next_ + ring_.size() - i) % ring_.size()];
    if (now - one.ended > back) break;
    if (!std::isnan(one.ttft)) ttft.push_back(one.ttft);
    if (!std::isnan(one.tpot)) tpot.push_back(one.tpot);
  }
  Quantiles quantiles;
  quantiles.ttft_p50 = quantile_of(ttft, 0.5, 1);
  quantiles.ttft_p95 = quantile_of(ttft, 0.95, least_for_p95);
  quantiles.tpot_p50 = quantile_of(tpot, 0.5, 1);
  return quantiles;
}

void Recent::take(std::span<const std::uint64_t> bounds, std::span<const std::uint64_t> counts, double fade,
                  double most) {
  came_ = 0;
  for (auto& weight : weights_) weight *= fade;
  if (!std::ranges::equal(bounds, bounds_)) {
    // The counts of other bounds are no earlier ones of these. A weight moves to the bucket that has its upper bound.
    std::vector<double> moved(counts.size(), 0.0);
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const auto at = i < bounds_.size() ? std::ranges::lower_bound(bounds, bounds_[i]) - bounds.begin()
                                         : static_cast<std::ptrdiff_t>(bounds.size());
      moved[static_cast<std::size_t>(at)] += weights_[i];
    }
    weights_ = std::move(moved);
    bounds_.assign(bounds.begin(), bounds.end());
  } else {
    const auto grown = [&](std::size_t i) {
      return counts[i] > before_[i] ? static_cast<double>(counts[i] - before_[i]) : 0.0;
    };
    for (std::size_t i = 0; i < counts.size(); ++i) came_ += grown(i);
    const double weight = came_ > most ? most / came_ : 1;
    for (std::size_t i = 0; i < counts.size(); ++i) weights_[i] += weight * grown(i);
  }
  before_.assign(counts.begin(), counts.end());
}

double Recent::count() const { return std::accumulate(weights_.begin(), weights_.end(), 0.0); }

std::optional<double> Recent::quantile(double q) const {
  const double all = count();
  if (all < 0.5) return std::nullopt;
  double below = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (below + weights_[i] < q * all || weights_[i] == 0) {
      below += weights_[i];
      continue;
    }
    if (i == bounds_.size()) break;
    const double low = i == 0 ? 0 : static_cast<double>(bounds_[i - 1]), high = static_cast<double>(bounds_[i]);
    return low + (high - low) * (q * all - below) / weights_[i];
  }
  return bounds_.empty() ? 0.0 : static_cast<double>(bounds_.back());
}

std::optional<double> Recent::bound_of_quantile(double q) const {
  const double all = count();
  if (all < 0.5) return std::nullopt;
  double below = 0;
  for (std::size_t i = 0; i < bounds_.size(); ++i) {
    below += weights_[i];
    if (below >= q * all) return static_cast<double>(bounds_[i]);
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace weir::proxy::live

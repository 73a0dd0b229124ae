#include "metrics/compare/effects.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "metrics/compare/attainment.hpp"
#include "metrics/compare/quantile.hpp"

namespace weir::metrics::compare {
namespace {

constexpr std::uint32_t least_tokens_of_tpot = 16;

std::optional<double> positive(double value) {
  if (std::isfinite(value) && value > 0) return value;
  return std::nullopt;
}

std::vector<Point> ratios_of(const SideValues& values) {
  std::vector<Point> ratios;
  ratios.reserve(values.a.size());
  for (std::size_t i = 0; i < values.a.size(); ++i) {
    ratios.push_back({values.a[i].at_us, std::log(values.b[i].value / values.a[i].value)});
  }
  return ratios;
}

/// Returns the share of ones in the window; NaN if there are no values.
double share_of(const std::vector<Point>& points, const Window& window) {
  double count = 0, ones = 0;
  for (const Point& point : points) {
    if (!window.holds(point.at_us)) continue;
    ++count;
    ones += point.value;
  }
  return count > 0 ? ones / count : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

std::optional<double> value_of(Metric metric, const Sample& sample) {
  const bool tokens_known = sample.served && sample.output_tokens != unknown_count;
  switch (metric) {
    case Metric::ttft:
      return positive(sample.ttft);
    case Metric::tpot:
      if (!tokens_known || sample.output_tokens < least_tokens_of_tpot) return std::nullopt;
      return positive(sample.tpot);
    case Metric::output_tokens:
      if (!tokens_known) return std::nullopt;
      return std::max(sample.output_tokens, 1u);
    default:
      return std::nullopt;
  }
}

SideValues values_of(Metric metric, const Pairing& pairing) {
  SideValues values;
  values.paired = pairing.mode != Mode::split;
  if (!values.paired) {
    for (const Single& one : pairing.only_a) {
      if (const auto value = value_of(metric, *one.sample)) values.a.push_back({one.at_us, *value});
    }
    for (const Single& one : pairing.only_b) {
      if (const auto value = value_of(metric, *one.sample)) values.b.push_back({one.at_us, *value});
    }
    return values;
  }
  for (const Pair& pair : pairing.pairs) {
    const auto a = value_of(metric, *pair.a), b = value_of(metric, *pair.b);
    if (!a || !b) continue;
    values.a.push_back({pair.at_us, *a});
    values.b.push_back({pair.at_us, *b});
  }
  return values;
}

BlockValues log_ratios(const SideValues& values, const Window& window) {
  if (values.paired) return block_medians(ratios_of(values), window);
  const BlockValues a = block_medians(values.a, window), b = block_medians(values.b, window);
  BlockValues ratios;
  for (std::size_t i = 0; i < block_count; ++i) ratios[i] = std::log(b[i] / a[i]);
  return ratios;
}

std::vector<double> log_ratios_by_minute(const SideValues& values, const Window& window) {
  if (values.paired) return minute_medians(ratios_of(values), window);
  std::vector<double> a = minute_medians(values.a, window);
  const std::vector<double> b = minute_medians(values.b, window);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::log(b[i] / a[i]);
  return a;
}

BlockValues share_differences(const SideValues& values, const Window& window) {
  const double whole = share_of(values.a, window);
  const BlockValues a = block_means(values.a, window), b = block_means(values.b, window);
  BlockValues differences;
  for (std::size_t i = 0; i < block_count; ++i) {
    differences[i] = whole > 0 ? (b[i] - a[i]) / whole : std::numeric_limits<double>::quiet_NaN();
  }
  return differences;
}

SideValues above_p95_of_a(const SideValues& values, const Window& window) {
  std::vector<double> of_a;
  for (const Point& point : values.a) {
    if (window.holds(point.at_us)) of_a.push_back(point.value);
  }
  const double p95 = quantile(std::span(of_a), 0.95);
  SideValues above = values;
  for (auto* side : {&above.a, &above.b}) {
    for (Point& point : *side) point.value = point.value > p95 ? 1 : 0;
  }
  return above;
}

Attained attained(const config::Slo& slo, const Pairing& pairing) {
  Attained result;
  result.values.paired = pairing.mode != Mode::split;
  const auto judged = [&](const std::vector<Single>& singles, std::vector<Point>& values) {
    for (const Single& one : singles) {
      const Attainment attainment = judge(slo, *one.sample, Since::arrival);
      if (attainment == Attainment::met) values.push_back({one.at_us, 1});
      if (attainment == Attainment::missed) values.push_back({one.at_us, 0});
    }
  };
  if (!result.values.paired) {
    judged(pairing.only_a, result.values.a);
    judged(pairing.only_b, result.values.b);
    return result;
  }
  for (const Pair& pair : pairing.pairs) {
    const auto met = judge_pair(slo, *pair.a, *pair.b);
    if (!met) continue;
    result.values.a.push_back({pair.at_us, met->a ? 1.0 : 0.0});
    result.values.b.push_back({pair.at_us, met->b ? 1.0 : 0.0});
    result.pairs.add(met->a, met->b);
  }
  return result;
}

}  // namespace weir::metrics::compare

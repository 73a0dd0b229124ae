#include "metrics/compare/pairs/values.hpp"

#include <algorithm>
#include <cmath>

#include "metrics/compare/samples/attainment.hpp"
#include "metrics/compare/statistics/distribution.hpp"
#include "metrics/compare/statistics/quantile.hpp"

namespace weir::metrics::compare::pairs {
namespace {

constexpr std::uint32_t least_tokens_of_tpot = 16;

std::optional<double> positive(double value) {
  if (std::isfinite(value) && value > 0) return value;
  return std::nullopt;
}

/// Returns the longest gap in seconds; nothing if there is none.
std::optional<double> longest_gap(const samples::Sample& sample) {
  if (!sample.served || sample.gaps.empty()) return std::nullopt;
  const auto longest = std::ranges::max_element(sample.gaps, {}, &record::GapSketch::Bin::index);
  return positive(seconds(record::GapSketch::middle_of(longest->index)));
}

std::optional<double> freezes(const samples::Sample& sample) {
  constexpr double shortest_s = 0.25, times_the_median = 10;
  const auto longest = longest_gap(sample);
  if (!longest || *longest <= shortest_s) return longest ? std::optional(0.0) : std::nullopt;
  statistics::GapCounts gaps;
  for (const auto& bin : sample.gaps) gaps[bin.index] += bin.count;
  return *longest > times_the_median * statistics::quantile_of_gaps(gaps, 0.5) ? 1 : 0;
}

}  // namespace

std::optional<double> value_of(statistics::Metric metric, const samples::Sample& sample) {
  const bool tokens_known = sample.served && sample.output_tokens != samples::unknown_count;
  switch (metric) {
    case statistics::Metric::ttft:
      return positive(sample.ttft);
    case statistics::Metric::tpot:
      if (!tokens_known || sample.output_tokens < least_tokens_of_tpot) return std::nullopt;
      return positive(sample.tpot);
    case statistics::Metric::output_tokens:
    case statistics::Metric::output_tokens_mean:
      if (!tokens_known) return std::nullopt;
      return std::max(sample.output_tokens, 1u);
    case statistics::Metric::longest_gap:
      return longest_gap(sample);
    case statistics::Metric::freezes:
      return freezes(sample);
    default:
      return std::nullopt;
  }
}

statistics::SideValues values_of(statistics::Metric metric, const Pairing& pairing) {
  statistics::SideValues values;
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

double slower_p99_s(const Pairing& pairing, const statistics::Window& window) {
  std::vector<float> of_a, of_b;
  const auto take = [&](const samples::Sample& sample, std::int64_t at_us, std::vector<float>& durations) {
    if (window.holds(at_us) && std::isfinite(sample.e2e)) durations.push_back(sample.e2e);
  };
  for (const Pair& pair : pairing.pairs) {
    take(*pair.a, pair.at_us, of_a);
    take(*pair.b, pair.at_us, of_b);
  }
  if (pairing.mode == Mode::split) {
    for (const Single& one : pairing.only_a) take(*one.sample, one.at_us, of_a);
    for (const Single& one : pairing.only_b) take(*one.sample, one.at_us, of_b);
  }
  return std::fmax(statistics::quantile(std::span(of_a), 0.99), statistics::quantile(std::span(of_b), 0.99));
}

void Durations::add(std::span<const Pair> pairs) {
  const auto add = [](statistics::GapCounts& counts, float seconds) {
    constexpr float most = 1e6f;
    if (seconds > 0 && seconds < most)
      ++counts[record::GapSketch::bin_of(Nanoseconds(static_cast<std::int64_t>(static_cast<double>(seconds) * 1e9)))];
  };
  for (const Pair& pair : pairs) {
    add(a, pair.a->e2e);
    add(b, pair.b->e2e);
  }
}

double Durations::slower_p99_s() const {
  return std::fmax(statistics::quantile_of_gaps(a, 0.99), statistics::quantile_of_gaps(b, 0.99));
}

Attained attained(const config::Slo& slo, const Pairing& pairing) {
  Attained result;
  result.missed.paired = pairing.mode != Mode::split;
  const auto judged = [&](const std::vector<Single>& singles, std::vector<statistics::Point>& values) {
    for (const Single& one : singles) {
      const samples::Attainment attainment = judge(slo, *one.sample, samples::Since::arrival);
      if (attainment == samples::Attainment::met) values.push_back({one.at_us, 0});
      if (attainment == samples::Attainment::missed) values.push_back({one.at_us, 1});
    }
  };
  if (!result.missed.paired) {
    judged(pairing.only_a, result.missed.a);
    judged(pairing.only_b, result.missed.b);
    return result;
  }
  for (const Pair& pair : pairing.pairs) {
    const auto met = judge_pair(slo, *pair.a, *pair.b);
    if (!met) continue;
    result.missed.a.push_back({pair.at_us, met->a ? 0.0 : 1.0});
    result.missed.b.push_back({pair.at_us, met->b ? 0.0 : 1.0});
    result.met.add(met->a, met->b);
  }
  return result;
}

}  // namespace weir::metrics::compare::pairs

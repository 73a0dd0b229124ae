#include "metrics/compare/pairs/values.hpp"

#include <algorithm>
#include <cmath>

#include "metrics/compare/statistics/distribution.hpp"

namespace weir::metrics::compare::pairs {
namespace {

constexpr std::uint32_t least_tokens_of_tpot = 16;

std::optional<double> positive(double value) {
  if (std::isfinite(value) && value > 0) return value;
  return std::nullopt;
}

double seconds_of(const record::GapSketch::Bin& bin) { return seconds(record::GapSketch::middle_of(bin.index)); }

double frozen_s(const samples::Sample& sample) {
  constexpr double shortest_s = 0.25, times_the_median = 10;
  const auto is_long = [](const auto& bin) { return seconds_of(bin) > shortest_s; };
  if (std::ranges::none_of(sample.gaps, is_long)) return 0;
  statistics::GapCounts gaps;
  for (const auto& bin : sample.gaps) gaps[bin.index] += bin.count;
  const double most = std::max(shortest_s, times_the_median * statistics::quantile_of_gaps(gaps, 0.5));
  double sum = 0;
  for (const auto& bin : sample.gaps)
    if (seconds_of(bin) > most) sum += seconds_of(bin) * bin.count;
  return sum;
}

}  // namespace

std::optional<double> value_of(Quantity quantity, const samples::Sample& sample) {
  const bool tokens_known = sample.served && sample.output_tokens != samples::unknown_count;
  switch (quantity) {
    case Quantity::ttft:
      return positive(sample.ttft);
    case Quantity::tpot:
      if (!tokens_known || sample.output_tokens < least_tokens_of_tpot) return std::nullopt;
      return positive(sample.tpot);
    case Quantity::e2e:
      return sample.served && !sample.stream ? positive(sample.e2e) : std::nullopt;
    case Quantity::output_tokens:
      if (!tokens_known) return std::nullopt;
      return std::max(sample.output_tokens, 1u);
  }
  return std::nullopt;
}

double stalled_s(const samples::Sample& sample, double longest_ttft_s, double longest_e2e_s) {
  // A user who has waited for ten seconds has gone, and one hanging stream does not decide.
  constexpr double most_s = 10;
  const auto above = [](std::optional<double> value, double most) {
    return value && std::isfinite(most) ? std::max(0.0, *value - most) : 0.0;
  };
  auto first = value_of(Quantity::ttft, sample), whole = value_of(Quantity::e2e, sample);
  // A client that left without a token has waited as well.
  if (sample.outcome == Outcome::client_abort && !std::isfinite(sample.ttft))
    (sample.stream ? first : whole) = positive(sample.lasted);
  return std::min(most_s, above(first, longest_ttft_s) + above(whole, longest_e2e_s) + frozen_s(sample));
}

}  // namespace weir::metrics::compare::pairs

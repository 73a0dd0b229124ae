#include "metrics/compare/comparison/history_choice.hpp"

#include <algorithm>

namespace weir::metrics::compare::comparison {
namespace {

/// True if all requests that are compared are of this pool, or it is "". Without its line a primary does not tell.
bool is_of(std::string_view pool, const pairs::Pairing& pairing, const samples::Names& names, const Past* past) {
  if (pool.empty()) return true;
  const auto is_other = [&](samples::Names::Name one) { return names.text(one) != pool; };
  if (past && std::ranges::any_of(past->pools, is_other)) return false;
  const auto fits = [&](const samples::Sample* primary) {
    return primary == nullptr || names.text(primary->pool) == pool;
  };
  if (pairing.mode != pairs::Mode::split) return std::ranges::all_of(pairing.pairs, fits, &pairs::Pair::primary);
  return std::ranges::all_of(pairing.only_a, fits, &pairs::Single::sample) &&
         std::ranges::all_of(pairing.only_b, fits, &pairs::Single::sample);
}

std::optional<History> suitable(const std::vector<History>& histories, const pairs::Pairing& pairing,
                                const samples::Names& names, const Past* past) {
  for (const History& one : histories) {
    const bool known = one.variance(statistics::Metric::tpot) || one.variance(statistics::Metric::ttft);
    const bool suits_mode = pairing.mode != pairs::Mode::split || !one.paired;
    if (known && suits_mode && is_of(one.pool, pairing, names, past)) return one;
  }
  return std::nullopt;
}

double range_s(std::span<const samples::Sample> samples) {
  if (samples.empty()) return 0;
  const auto [first, last] = std::ranges::minmax_element(samples, {}, &samples::Sample::dispatched_us);
  return static_cast<double>(last->dispatched_us - first->dispatched_us) * 1e-6;
}

}  // namespace

std::optional<History> history_for(const pairs::Pairing& pairing, std::span<const samples::Sample> samples,
                                   const samples::Names& names, const Options& options, const Past* past) {
  if (auto found = suitable(options.histories, pairing, names, past)) return found;
  // Samples of less than that have no eight hours, and are not looked into.
  constexpr double least_s = 7 * 3600;
  if (range_s(samples) < least_s) return std::nullopt;
  return suitable(histories_of(couples_of(samples, names, options.warm_up)), pairing, names, past);
}

HistoryUsed used(const History& history) {
  return {std::max(history.hours(statistics::Metric::ttft), history.hours(statistics::Metric::tpot)), history.source};
}

}  // namespace weir::metrics::compare::comparison

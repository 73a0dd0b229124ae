#include "metrics/compare/comparison/exploration.hpp"

#include <cmath>
#include <utility>

#include "metrics/compare/pairs/values.hpp"
#include "metrics/compare/statistics/bootstrap.hpp"

namespace weir::metrics::compare::comparison {
namespace {

std::optional<Exploration> at_length_of_a(const pairs::Pairing& pairing, const statistics::Window& window) {
  statistics::SideValues values;
  values.paired = true;
  for (const pairs::Pair& pair : pairing.pairs) {
    const auto ttft_a = pairs::value_of(statistics::Metric::ttft, *pair.a),
               ttft_b = pairs::value_of(statistics::Metric::ttft, *pair.b);
    const auto tpot_a = pairs::value_of(statistics::Metric::tpot, *pair.a),
               tpot_b = pairs::value_of(statistics::Metric::tpot, *pair.b);
    if (!ttft_a || !ttft_b || !tpot_a || !tpot_b) continue;
    const double behind = pair.a->output_tokens - 1;
    values.a.push_back({pair.at_us, *ttft_a + *tpot_a * behind});
    values.b.push_back({pair.at_us, *ttft_b + *tpot_b * behind});
  }
  const auto estimate = statistics::estimate_of(log_ratios(values, window));
  if (!estimate) return std::nullopt;
  return Exploration{"e2e_at_length_of_a", statistics::shown(estimate->mean),
                     statistics::shown(interval_of(*estimate))};
}

}  // namespace

std::vector<Exploration> explore(const pairs::Pairing& pairing, const statistics::SideValues& ttft,
                                 const statistics::SideValues& tpot, const statistics::Window& window,
                                 unsigned resamples) {
  std::vector<Exploration> result;
  if (auto whole = at_length_of_a(pairing, window)) result.push_back(std::move(*whole));
  if (resamples == 0) return result;
  for (const auto& [name, values] : {std::pair("ttft", &ttft), std::pair("tpot", &tpot)}) {
    const statistics::BlockBootstrap bootstrap(*values, window);
    for (const int percentile : {95, 99}) {
      if (const auto ratio = bootstrap.ratio(percentile / 100.0, resamples)) {
        result.push_back({name + std::string("_p") + std::to_string(percentile), ratio->estimate, ratio->interval});
      }
    }
  }
  return result;
}

}  // namespace weir::metrics::compare::comparison

#include "metrics/compare/statistics/quantile.hpp"

#include <algorithm>

#include "metrics/moment.hpp"

namespace weir::metrics::compare::statistics {
namespace {

template <class Quantile>
Distribution distribution(std::uint64_t count, Quantile&& quantile) {
  Distribution found;
  found.count = count;
  if (count == 0) return found;
  found.p50 = quantile(0.5);
  found.p90 = quantile(0.9);
  found.p95 = quantile(0.95);
  if (count >= least_for_p99) found.p99 = quantile(0.99);
  return found;
}

}  // namespace

Distribution distribution_of(std::span<float> values) {
  return distribution(values.size(), [&](double q) { return quantile(values, q); });
}

void add(GapCounts& counts, std::span<const record::GapSketch::Bin> bins) {
  for (const auto& bin : bins) counts[bin.index] += bin.count;
}

static std::uint64_t count_of(const GapCounts& counts) {
  std::uint64_t count = 0;
  for (const auto& [bin, gaps] : counts) count += gaps;
  return count;
}

double quantile_of_gaps(const GapCounts& counts, double q) {
  return quantile_by_number(count_of(counts), q, [&](std::uint64_t number) {
    std::uint64_t up_to_here = 0;
    const auto found =
        std::ranges::find_if(counts, [&](const auto& bin) { return (up_to_here += bin.second) > number; });
    return seconds(record::GapSketch::middle_of(found->first));
  });
}

Distribution distribution_of(const GapCounts& counts) {
  return distribution(count_of(counts), [&](double q) { return quantile_of_gaps(counts, q); });
}

}  // namespace weir::metrics::compare::statistics

// Half an hour of mirrored requests, for the tests that compare a window of pairs.
#pragma once

#include <cstdint>

#include "metrics/compare/comparison/comparison.hpp"
#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::comparison {

/// A pair every 5 s for 30 minutes. b's times are `factor` of a's, give or take half a percent.
inline TwinSamples twins_of(double factor, int pairs = 360) {
  TwinSamples samples;
  for (int i = 0; i < pairs; ++i) {
    const auto k = static_cast<std::uint64_t>(i);
    samples::Sample& primary = samples.primary(5 * i * second);
    primary.ttft = static_cast<float>(0.1 + 0.1 * uniform(k, 1));
    primary.tpot = static_cast<float>(0.02 + 0.01 * uniform(k, 2));
    samples::Sample& shadow = samples.shadow(primary);
    shadow.ttft = static_cast<float>(primary.ttft * factor * (0.995 + 0.01 * uniform(k, 3)));
    shadow.tpot = static_cast<float>(primary.tpot * factor * (0.995 + 0.01 * uniform(k, 4)));
  }
  return samples;
}

}  // namespace weir::metrics::compare::comparison

// Requests for the tests of what one side did.
#pragma once

#include <vector>

#include "metrics/compare/samples/sample.hpp"
#include "metrics/compare/sides/side.hpp"

namespace weir::metrics::compare {

inline constexpr std::int64_t second_us = 1'000'000;
/// A whole minute of the wall clock.
inline constexpr std::int64_t noon = std::int64_t{1'795'219'200} * second_us;

/// A stream of 101 tokens that is sent at `at_s` seconds after noon: its first token takes 1 s, the rest 10 ms each.
inline samples::Sample stream_at(double at_s, samples::Names::Name replica = 1) {
  samples::Sample sample;
  sample.received_us = sample.dispatched_us = noon + static_cast<std::int64_t>(at_s * 1e6);
  sample.replica = replica;
  sample.stream = sample.served = true;
  sample.prompt_tokens = 1000;
  sample.cached_tokens = 0;
  sample.output_tokens = 101;
  sample.ttft = sample.ttft_client = 1;
  sample.tpot = 0.01F;
  sample.e2e = sample.lasted = 2;
  sample.in_flight_mean = 1;
  sample.in_flight_at_start = 0;
  return sample;
}

inline std::vector<const samples::Sample*> pointers(const std::vector<samples::Sample>& samples) {
  std::vector<const samples::Sample*> all;
  for (const auto& sample : samples) all.push_back(&sample);
  return all;
}

}  // namespace weir::metrics::compare

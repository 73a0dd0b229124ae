// Two engine models get the same requests at the same time, as a primary and its twin do, in simulated time. What they
// answer becomes samples, as the requests of a running weir do, and these are what metrics::compare judges.
//
// Real are the comparison and the engine models that `weir-lab sim` runs. Simulated are time, the arrivals' scale, and
// what makes two runs differ: each side draws the length of every answer anew from all of the trace's, each engine has
// step times with jitter of their own, and the speed of each GPU drifts. weir's own I/O is left out.
//
// A run is deterministic by seed. The engines begin empty and keep no prefix cache, so after two minutes their batch is
// as full as it stays: no pair counts before (the live program waits for ten).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "metrics/compare/comparison/comparison.hpp"
#include "tests/bench/drifting_engine.hpp"

namespace weir::bench {

namespace compare = metrics::compare;

inline constexpr double warm_s = 120;
/// Requests go on for so long after the window, so that its last ones run under load as well.
inline constexpr double beyond_s = 60;

/// Returns arrivals at `rate` a second that last as long as a window of that length takes. They begin at an entry of
/// the trace that the seed chooses, and go on at its start when it ends.
inline std::vector<Arrival> arrivals_of(std::span<const TraceEntry> trace, double rate, double window_s,
                                        std::uint64_t seed) {
  const double lasting = warm_s + window_s + beyond_s;
  const auto count = static_cast<std::size_t>(rate * lasting) + 1;
  const auto part = part_of(trace, count, Random(seed).below(trace.size()));
  std::vector<Arrival> arrivals(count);
  for (std::size_t i = 0; i < count; ++i)
    arrivals[i] = {part[i].at - part[0].at, part[i].prompt_tokens, part[i].output_tokens};
  const double scale = lasting / arrivals.back().at;
  for (Arrival& arrival : arrivals) arrival.at *= scale;
  return arrivals;
}

/// The requests of a comparison, as weir has them.
class Samples {
 public:
  Samples() {
    options.a = {compare::sides::By::config, names.of("primary")};
    options.b = {compare::sides::By::config, names.of("candidate")};
    options.warm_up.seconds = warm_s;
    options.slo = config::Slo{.name = "chat",
                              .pool = "chat",
                              .ttft_client = config::Seconds(1.0),
                              .ttft = {},
                              .tpot = config::Seconds(0.05),
                              .e2e = {}};
  }

  void primary(std::size_t i, const Arrival& arrival, const Answer& answer, std::string_view replica) {
    add(i, arrival, answer, replica, "primary");
  }

  void shadow(std::size_t i, const Arrival& arrival, const Answer& answer) {
    compare::samples::Sample& sample = add(i, arrival, answer, "gpu-candidate", "candidate");
    sample.pair = sample.id;
    sample.id[0] = 2;
    sample.role = metrics::Role::shadow;
    sample.shadow = names.of("candidate");
  }

  /// Compares a window of that length, the first after the warm-up.
  compare::comparison::Comparison judge(double window_s) {
    options.from_us = begin_us + static_cast<std::int64_t>(warm_s * 1e6);
    options.length_us = static_cast<std::int64_t>(window_s * 1e6);
    return compare::comparison::compare(samples_, names, options);
  }

  compare::samples::Names names;
  compare::comparison::Options options;

 private:
  static constexpr std::int64_t begin_us = 1'795'219'200'000'000;

  compare::samples::Sample& add(std::size_t i, const Arrival& arrival, const Answer& answer, std::string_view replica,
                                std::string_view config) {
    compare::samples::Sample& sample = samples_.emplace_back();
    sample.received_us = sample.dispatched_us = begin_us + static_cast<std::int64_t>(arrival.at * 1e6);
    sample.id = {1, i + 1};
    sample.pool = names.of("chat");
    sample.replica = names.of(replica);
    sample.config = names.of(config);
    sample.api = metrics::Api::openai_chat;
    sample.stream = sample.served = true;
    sample.status = 200;
    sample.prompt_tokens = static_cast<std::uint32_t>(arrival.prompt_tokens);
    sample.cached_tokens = 0;
    sample.output_tokens = static_cast<std::uint32_t>(answer.output_tokens);
    sample.ttft = sample.ttft_client = static_cast<float>(answer.ttft);
    if (answer.output_tokens > 1) sample.tpot = static_cast<float>(answer.tpot);
    sample.e2e = sample.lasted = static_cast<float>(answer.e2e);
    sample.in_flight_at_start = answer.in_flight_at_start;
    sample.in_flight_mean = static_cast<float>(answer.in_flight_mean);
    return sample;
  }

  std::vector<compare::samples::Sample> samples_;
};

/// Returns the samples of a primary and its twin.
inline Samples twins(std::span<const Arrival> arrivals, std::span<const Answer> primary,
                     std::span<const Answer> candidate) {
  Samples samples;
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    samples.primary(i, arrivals[i], primary[i], "gpu-primary");
    samples.shadow(i, arrivals[i], candidate[i]);
  }
  return samples;
}

}  // namespace weir::bench

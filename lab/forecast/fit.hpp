// Fits the constants of each replica's engine model (lab/engine/engine_model.hpp) from a request log.
//
// A step of the model lasts
//
//     base + prefill * (prompt tokens of the step) + sequence * (decoding sequences) + kv * (resident tokens).
//
// The log tells when each request was sent, had its first token and ended, so all but the four constants is known of
// each stream:
//
// - A stream's TPOT is the mean step of its decode phase: base, plus `prefill` times the uncached prompt tokens whose
//   prefill lay in that phase, per step, plus `sequence` and `kv` times the means of what decoded and was resident.
// - The TTFT of a request that no other prompt delayed is `overhead` (network, HTTP, tokenizer), half a step where
//   others were decoding, and the steps of its own prefill.
//
// Both kinds of equations are linear in the five constants. They are solved together, for relative errors, with Huber's
// weights (outliers count by their distance and not by its square), and no constant is negative. A replica with fewer
// than `least_streams` such streams takes the constants of all replicas together.
#pragma once

#include <cstdint>
#include <vector>

#include "lab/engine/engine_model.hpp"
#include "lab/forecast/served_log.hpp"

namespace weir::lab::forecast {

/// The constants, in seconds.
struct EngineFit {
  double base = 0;      ///< A step.
  double prefill = 0;   ///< A prompt token.
  double sequence = 0;  ///< A decoding sequence in a step.
  double kv = 0;        ///< A resident token in a step.
  double overhead = 0;  ///< The part of a TTFT beside the engine's steps.
  double error = 0;     ///< The median relative error of the equations, 0.05 for 5 %.
  std::uint64_t equations = 0;
  bool pooled = false;  ///< The replica has too few streams, and takes the constants of all.

  bool operator==(const EngineFit&) const = default;
};

inline constexpr std::size_t least_streams = 100;

/// The limits of an engine, which no log tells.
struct EngineLimits {
  std::uint32_t max_batch = 256;
  std::uint64_t kv_tokens = 1'000'000;
  std::uint32_t prefill_budget = 2048;
};

/// Returns the constants of each replica. Throws std::invalid_argument if the streams of all replicas together do not
/// determine them.
std::vector<EngineFit> fit_engines(const ServedLog& log, std::uint32_t prefill_budget);

/// Returns the tokens of the block in which the engines' prefix caches find prompts: what all cached_tokens of the log
/// are multiples of, in whole blocks of 16, or 16 where the log has too few different ones to tell.
std::uint64_t hit_tokens_of(const ServedLog& log);

/// Returns the settings of an engine model with these constants.
engine::EngineSettings settings_of(const EngineFit& fit, const EngineLimits& limits, bool prefix_caching,
                                   std::uint64_t hit_tokens);

}  // namespace weir::lab::forecast

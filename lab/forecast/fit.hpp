// A request log as what replicas did, and the constants of their engine models.
//
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
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "lab/engine/engine_model.hpp"
#include "lab/load/trace.hpp"

namespace weir::lab::forecast {

/// A request that a replica served to its end. Times are in seconds.
struct LoggedRequest {
  double arrived = 0;          ///< Since the first request of the log.
  double sent = 0;             ///< The replica had it then, on the same clock.
  std::optional<double> ttft;  ///< From `sent`; absent where the answer was no stream.
  std::optional<double> tpot;  ///< Absent where the answer was no stream or had one token.
  double ended = 0;            ///< On the same clock.
  std::size_t replica = 0;     ///< Its place in ServedLog::replicas.
  std::uint64_t prompt_tokens = 1, cached_tokens = 0, output_tokens = 1;
  std::optional<std::uint64_t> max_tokens;

  /// Returns the prompt tokens that the replica computed. The last token of a prompt is always computed.
  std::uint64_t uncached_tokens() const { return prompt_tokens > cached_tokens ? prompt_tokens - cached_tokens : 1; }
};

struct ServedLog {
  /// Sorted by name: those that had a request, and then those of which only the settings tell.
  std::vector<std::string> replicas;
  std::vector<std::string> before;      ///< Replicas that had requests only before these.
  std::vector<LoggedRequest> requests;  ///< In the order of their arrivals.
  std::vector<load::TraceEntry> trace;  ///< The same requests, with what their prompts have in common.
  std::uint64_t left_out = 0;           ///< Requests that failed, or of which the log does not tell enough.
  std::uint64_t damaged = 0;            ///< Lines that cannot be read as lines of a request log.
  std::size_t first_damaged = 0;        ///< The number of the first such line, from 1 on.
  std::uint64_t conversations = 0;      ///< Those of more than one turn.
  load::LogFacts facts;                 ///< Of these requests.
  bool cached_tokens_told = false;      ///< At least one line tells more than 0 cached tokens.

  /// Returns a sentence without its full stop about the lines that cannot be read; "" if there are none.
  std::string damaged_lines() const;
};

struct ServedLogSettings {
  std::string pool{};             ///< Only this pool; "" where the log has one.
  std::size_t most_requests = 0;  ///< The last ones; 0 means all.
  /// So many were there, those without requests among them; 0 means those that the log tells.
  std::size_t replicas = 0;
};

/// A log with fewer served requests says too little.
inline constexpr std::size_t least_requests = 200;

/// Reads a log. Lines that cannot be read are skipped and counted; the last one does not count if it has no end,
/// because it is being written. Throws std::invalid_argument with a sentence if it cannot be used: no request log,
/// lines of several pools, more replicas than the settings say, fewer than `least_requests` served requests, or no
/// streams.
ServedLog read_served_log(std::istream& in, const ServedLogSettings& settings);

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

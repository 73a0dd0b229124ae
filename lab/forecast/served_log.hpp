// Reads a request log as what a pool's replicas did: which replica served which request, and when.
#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "lab/load/trace.hpp"

namespace weir::lab::forecast {

/// A request that a replica served to its end. Times are in seconds.
struct LoggedRequest {
  double arrived = 0;             ///< Since the first request of the log.
  double sent = 0;                ///< The replica had it then, on the same clock.
  std::optional<double> ttft;     ///< From `sent`; absent where the answer was no stream.
  std::optional<double> tpot;     ///< Absent where the answer was no stream or had one token.
  double ended = 0;               ///< On the same clock.
  std::size_t replica = 0;        ///< Its place in ServedLog::replicas.
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
  std::string pool{};              ///< Only this pool; "" where the log has one.
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

}  // namespace weir::lab::forecast

// The time that prompts and answers cost on an idle replica: least-squares lines through requests of many lengths, sent
// one by one.
//
// TTFT = a + b * uncached prompt tokens; (last - first token) = c * (output tokens - 1) + d. The intervals are t
// intervals at 95 % of the slopes (metrics/compare/statistics/intervals.hpp). Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <span>

#include "lab/load/connection.hpp"
#include "metrics/compare/statistics/intervals.hpp"
#include "metrics/wire/json/writer.hpp"

namespace weir::lab::load::prefill {

/// LLMPerf's authors found the slope of shorter prompts hidden by noise.
inline constexpr double short_prompt = 800;

struct Point {
  double uncached_tokens = 0;
  double ttft = 0;         ///< Seconds.
  double more_tokens = 0;  ///< The output tokens behind the first.
  double decode = 0;       ///< The seconds from the first token to the last.
};

/// Returns nothing for a request that failed or brought no token.
std::optional<Point> point_of(const Result& result);

using metrics::compare::statistics::Measured;

/// A slope in milliseconds.
struct Slope {
  Measured ms;
  std::size_t requests = 0;

  /// The noise hides it: its interval is unknown, holds 0, or is wider than the value itself.
  bool hidden() const;
};

struct PrefillCost {
  Slope per_1000_tokens;
  std::optional<Slope> per_output_token;
  std::optional<Slope> short_prompts;  ///< For 1000 tokens, by prompts shorter than short_prompt alone.
};

/// Returns nothing for fewer than three requests, or if all prompts have one length.
std::optional<PrefillCost> cost_of(std::span<const Point> points);

void print(std::ostream& out, const std::optional<PrefillCost>& cost);
void write(metrics::wire::JsonWriter& json, const std::optional<PrefillCost>& cost);

}  // namespace weir::lab::load::prefill

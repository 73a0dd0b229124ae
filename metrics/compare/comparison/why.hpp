// The sentences of a comparison.
#pragma once

#include <cstdint>
#include <string>

#include "metrics/compare/comparison/comparison.hpp"

namespace weir::metrics::compare::comparison {

/// The reason why a metric has no verdict, whatever its values are.
enum class Bar : std::uint8_t {
  none,
  no_values,     ///< A block has no values.
  apart,         ///< The sides did not run at the same time.
  running,       ///< The declared window has not ended.
  not_counted,   ///< Misses of this objective were not counted while samples of the window left.
  cold,          ///< A shadow never prefilled what it holds.
  too_few,       ///< The blocks are too short.
  load_differs,  ///< The sides did not have the same load.
  spared_load,   ///< A side was spared more than 1 % of the requests.
};

/// Returns what a metric is called in sentences and tables.
std::string_view word_for(statistics::Metric metric);

/// Says why a verdict is what it is: blocks, interval, margin, and the blocks that moved the estimate most.
std::string why(const Verdict& verdict, Bar bar, bool held_back, const Comparison& comparison);

/// Says how often which side has a fault, and what follows: without the fault's name, so it begins in lower case.
std::string why(const pairs::FaultPairs& fault, const Comparison& comparison);

/// Says how soon answers part, in one sentence or a few.
std::string why(const pairs::Sameness& found, const Comparison& comparison);

/// "fp8 has prefilled 79000 of the 160000 tokens that its KV cache holds"
std::string shortfall(const Unfilled& unfilled);
/// "+8.1 %"
std::string percent(double share);
/// "from 2026-11-21T07:10:00Z to 2026-11-21T07:40:00Z"
std::string stretch(const statistics::Window& window);
/// "07:30:00" of the day, UTC.
std::string time_of_day(std::int64_t us);

}  // namespace weir::metrics::compare::comparison

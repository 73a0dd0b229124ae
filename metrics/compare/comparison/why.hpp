// Why verdicts are what they are, in sentences.
#pragma once

#include <string>
#include <string_view>

#include "metrics/compare/comparison/comparison.hpp"

namespace weir::metrics::compare::comparison {

/// Returns what a report calls a figure or a fault: "TTFT", "failed requests".
std::string_view word_for(statistics::Figure figure);
std::string_view word_for(pairs::Fault fault);

/// "27.2 to 31.5 ms": both in the unit that suits the larger one.
std::string values_text(statistics::Figure figure, double a, double b);
/// "+14.1 %"; of stalls "+12 s per 1000 requests".
std::string effect_text(statistics::Figure figure, double estimate);

/// Says what is known of a figure, and what is missing for a verdict.
std::string why(const Verdict& verdict, const Comparison& comparison);
/// Says how often which side has a fault, and what follows.
std::string why(const FaultVerdict& fault, const Comparison& comparison);
/// Says how the answers differ, if they do.
std::string why(const Answers& answers, const Comparison& comparison);
/// Says how soon greedy answers part, in one sentence or a few.
std::string why(const pairs::Sameness& found, const Comparison& comparison);
/// Says since when a figure is another.
std::string change_sentence(const Changed& changed, const Comparison& comparison);

/// "fp8 has prefilled 79000 of the 160000 tokens that its KV cache holds"
std::string shortfall(const Unfilled& unfilled);
/// "30 s", "12 min" or "3.5 h", rounded up.
std::string length_text(double seconds);
/// "from 2026-11-21T07:10:00Z to 2026-11-21T07:40:00Z"
std::string stretch(const statistics::Window& window);
/// "07:30:00" of the day, UTC.
std::string time_of_day(std::int64_t us);

}  // namespace weir::metrics::compare::comparison

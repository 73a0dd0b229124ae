// The report on two sides: the comparison, the figures of each side, and the notes. GET /api/compare and
// `weir compare` write the same report, as JSON (which other programs read), text or Markdown.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "metrics/compare/comparison/comparison.hpp"
#include "metrics/compare/comparison/strata.hpp"
#include "metrics/compare/comparison/swapped.hpp"
#include "metrics/compare/sides/side.hpp"

namespace weir::metrics::compare::report {

/// The measured point that costs least among those that are fast enough.
struct Cheapest {
  double most_ttft = 0, least_speed = 0;  ///< The demand, in seconds and tokens per second per user.
  struct Found {
    std::string side;
    sides::LoadPoint point;
    double cost_per_million_output_tokens = 0;
  };
  std::optional<Found> found;
};

struct Report {
  sides::By by = sides::By::config;
  comparison::Comparison comparison;
  std::optional<config::Slo> slo;
  std::vector<sides::Side> sides;  ///< a and b come first.
  std::vector<comparison::Stratum> by_prompt_size, by_turn;
  std::optional<Cheapest> cheapest;     ///< With costs and an objective that limits both TTFT and TPOT.
  std::vector<comparison::Note> notes;  ///< The comparison's notes, and more.
};

struct ReportOptions {
  sides::By by = sides::By::config;
  comparison::Options comparison;
  std::function<std::optional<double>(std::string_view replica, std::string_view config)> cost_per_hour;
};

/// Makes a report in time n log n, about three times that of compare() alone, and memory for a few pointers a sample.
Report make_report(std::span<const samples::Sample> samples, const samples::Names& names, const ReportOptions& options);

/// Two reports of windows in which the configurations changed GPUs.
struct SwappedReport {
  Report first, second;
  std::vector<comparison::SwappedVerdict> verdicts;
};

std::string as_json(const Report& report);
std::string as_json(const SwappedReport& report);

enum class Style { plain, colour, markdown };
std::string as_text(const Report& report, Style style);
std::string as_text(const SwappedReport& report, Style style);

}  // namespace weir::metrics::compare::report

// The report on two sides: the comparison, the figures of each side, and the notes. GET /api/compare and
// `weir compare` write the same report, as JSON (which other programs read), text or Markdown.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "metrics/compare/comparison/comparison.hpp"
#include "metrics/compare/comparison/gate.hpp"
#include "metrics/compare/comparison/strata.hpp"
#include "metrics/compare/comparison/swapped.hpp"
#include "metrics/compare/report/document.hpp"
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
  bool all_sides = false;          ///< Text and page show those that are not compared, too; JSON has them always.
  std::vector<comparison::Stratum> by_prompt_size, by_turn;
  std::optional<Cheapest> cheapest;     ///< With costs and an objective that limits both TTFT and TPOT.
  std::vector<comparison::Note> notes;  ///< The comparison's notes, and more.

  bool shows(const sides::Side& side) const { return all_sides || side.compared; }
};

struct ReportOptions {
  sides::By by = sides::By::config;
  comparison::Options comparison;
  bool all_sides = false;
  std::function<std::optional<double>(std::string_view replica, std::string_view config)> cost_per_hour;
};

/// Makes a report in time n log n, about three times that of compare() alone, and memory for a few pointers a sample.
Report make_report(std::span<const samples::Sample> samples, const samples::Names& names, const ReportOptions& options);

/// Two reports of windows in which the configurations changed GPUs.
struct SwappedReport {
  Report first, second;
  std::vector<comparison::SwappedVerdict> verdicts;
};

/// Reports of several candidates against one side, and verdicts that hold for all of them together.
struct CandidatesReport {
  std::vector<Report> reports;  ///< At least one; all have the same side a.
  /// Of the figures of one family (comparison.hpp), by candidate: Holm's method at 5 % over all of them, of all
  /// candidates.
  struct Row {
    std::vector<statistics::Metric> metrics;
    std::vector<statistics::Decision> decisions;  ///< A verdict that is withheld stays inconclusive.
    comparison::GateResult gate;                  ///< With these decisions; faults need evidence for all candidates.
  };
  std::vector<Row> rows;
};
CandidatesReport together(std::vector<Report> reports);

std::string as_json(const Report& report);
std::string as_json(const SwappedReport& report);
std::string as_json(const CandidatesReport& report);

enum class Style { plain, colour, markdown };
std::string as_text(const Report& report, Style style, Detail detail = Detail::full);
std::string as_text(const SwappedReport& report, Style style, Detail detail = Detail::full);
std::string as_text(const CandidatesReport& report, Style style, Detail detail = Detail::full);

}  // namespace weir::metrics::compare::report

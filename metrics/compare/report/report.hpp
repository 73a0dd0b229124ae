// The report on two sides: the comparison, the figures of each side, and the notes. GET /api/compare and
// `weir compare` write the same report, as JSON (which other programs read), text or Markdown.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "metrics/compare/comparison/comparison.hpp"
#include "metrics/compare/comparison/conclusion.hpp"
#include "metrics/compare/report/document.hpp"
#include "metrics/compare/sides/side.hpp"

namespace weir::metrics::compare::report {

struct Report {
  sides::By by = sides::By::config;
  comparison::Comparison comparison;
  std::optional<config::Slo> slo;
  std::vector<sides::Side> sides;       ///< a and b come first.
  bool all_sides = false;               ///< Text and page show those that are not compared, too; JSON has them always.
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

/// Reports of several candidates against one side, and verdicts that hold for all of them together.
struct CandidatesReport {
  std::vector<Report> reports;  ///< At least one; all have the same side a.
  /// The comparisons with verdicts by Holm's method at 5 % over the figures of all candidates, and faults by evidence
  /// for all of them; and their gates.
  struct Row {
    comparison::Comparison comparison;
    comparison::GateResult gate;
  };
  std::vector<Row> rows;
};
CandidatesReport together(std::vector<Report> reports);

/// The report as headings, sentences and tables, before it is text, Markdown or a page.
Document document_of(const Report& report);
/// The table of all candidates, without the report of each.
Document summary_of(const CandidatesReport& report);

std::string as_json(const Report& report);
std::string as_json(const CandidatesReport& report);

std::string as_text(const Report& report, Style style, Detail detail = Detail::full);
std::string as_text(const CandidatesReport& report, Style style, Detail detail = Detail::full);

}  // namespace weir::metrics::compare::report

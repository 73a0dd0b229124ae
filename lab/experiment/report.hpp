// The report of an experiment, for a terminal, for pages and for programs.
#pragma once

#include <string>
#include <vector>

#include "lab/chart/page.hpp"

namespace weir::lab::experiment {

using metrics::compare::report::Document;

struct Report {
  std::string title;
  Document terminal;                     ///< Tables may have histograms in letters.
  Document page;                         ///< The same for a page with charts, and for Markdown.
  std::vector<chart::Figures> charts{};  ///< A terminal has room for the last under each heading.
  std::string json{}, csv{};
  std::vector<std::string> notes{};  ///< Sentences that are told beside the report.
  bool whole = true;                 ///< False if something was not measured.
};

std::string as_text(const Report& report, bool coloured);

/// Returns "8 at once".
std::string at_once(std::uint64_t concurrency);

}  // namespace weir::lab::experiment

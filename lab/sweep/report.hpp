// What a sweep says: tables and sentences, charts, and JSON for programs.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "lab/chart/page.hpp"
#include "lab/sweep/sweep.hpp"

namespace weir::lab::sweep {

/// Returns the document: a heading for each phase ("prefill", "decode"), its table, and where its knee lies. With
/// `bars` each row has its histogram in letters.
metrics::compare::report::Document document_of(const Sweep& sweep, const SweepSettings& settings, bool bars);

/// Returns latency against throughput, and the histograms of at most six numbers at once, for each phase.
std::vector<chart::Figures> figures_of(const Sweep& sweep);

/// Returns what a terminal shows: the document with the charts in letters below it.
std::string as_text(const Sweep& sweep, const SweepSettings& settings, bool coloured);

/// Returns {"sweep": [...], "knee": {...}, ...}.
boost::json::object as_json(const Sweep& sweep, const SweepSettings& settings);

}  // namespace weir::lab::sweep

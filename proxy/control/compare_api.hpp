// GET /api/compare: the comparison of `weir compare`, of the last requests that this weir has had.
#pragma once

#include <functional>
#include <string_view>
#include <variant>

#include "metrics/compare/report/report.hpp"
#include "proxy/control/api.hpp"
#include "proxy/control/history.hpp"
#include "proxy/fleet/snapshot.hpp"

namespace weir::proxy::control {

/// Takes apart a query such as a=fp16&b=fp8&window=30m, and returns what makes the answer: to be called once, on any
/// thread. It holds a copy of what it needs: of 50,000 samples it takes
/// about 15 ms to make. A wrong query makes an answer that
/// says what is wrong.
std::function<ApiAnswer()> comparison(std::string_view query, const History& history, const fleet::Snapshot& snapshot);

/// Does the same for a query of the gate, which answers with the report's comparison.
using ReportMade = std::variant<metrics::compare::report::Report, ApiAnswer>;
std::function<ReportMade()> report_of(std::string_view query, const History& history, const fleet::Snapshot& snapshot);

}  // namespace weir::proxy::control

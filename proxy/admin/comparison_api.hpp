// GET /api/compare: the comparison of `weir compare`, of the last requests that this weir has had.
#pragma once

#include <functional>
#include <string_view>
#include <variant>

#include "metrics/compare/report/report.hpp"
#include "proxy/admin/api.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/shadows/history.hpp"

namespace weir::proxy::admin {

using balancer::rollout::Judged;

/// Takes apart a query such as a=fp16&b=fp8&window=30m, and returns what makes the answer: to be called once, on any
/// thread. It holds a copy of what it needs: of 50,000 samples it takes
/// about 15 ms to make. A wrong query makes an answer that
/// says what is wrong.
std::function<ApiAnswer()> comparison(std::string_view query, const History& history, const fleet::Snapshot& snapshot);

/// Does the same for a query of the gate, which answers with the report's comparison.
using ReportMade = std::variant<metrics::compare::report::Report, ApiAnswer>;
std::function<ReportMade()> report_of(std::string_view query, const History& history, const fleet::Snapshot& snapshot);

// GET and POST /api/gate: one word about a comparison, for controllers of other rollouts. The status is 200 for pass,
// 417 for worse and 425 for unknown.

/// The status of the answer by its word.
enum class GateStatus : unsigned char {
  by_word,
  always_200,    ///< status=200: whatever the word is.
  worse_is_200,  ///< expect=worse: 200 for worse, and 425 for all else.
};

/// Takes apart a query: shadow=NAME, or the parameters of /api/compare; and what GateStatus says. Returns what makes
/// the answer, to be called once, on the thread of slow answers.
std::function<ApiAnswer()> gate_answer(std::string_view query, const History& history, const fleet::Snapshot& snapshot);

/// {"word","worse":[],"unknown":[],"a","b","state","pairs","requests_a","requests_b","metrics":[{"metric","estimate",
/// "low","high","margin","finding"}]}
ApiAnswer gate_answer(const Judged& judged, GateStatus status);

}  // namespace weir::proxy::admin

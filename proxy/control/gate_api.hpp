// GET and POST /api/gate: one word about a comparison, for controllers of other rollouts. The status is 200 for pass,
// 417 for worse and 425 for unknown.
#pragma once

#include <functional>
#include <string_view>

#include "proxy/control/api.hpp"
#include "proxy/control/gates.hpp"
#include "proxy/control/history.hpp"
#include "proxy/fleet/snapshot.hpp"

namespace weir::proxy::control {

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

}  // namespace weir::proxy::control

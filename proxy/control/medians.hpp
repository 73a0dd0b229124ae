// The medians of each replica's requests that ended in the last minute, as /api/replicas shows them.
// A shadow's request ends, for this, when it is recorded: once its primary's has ended too. They come from the records
// that comparisons use, by the same function. The control thread uses it.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "metrics/moment.hpp"
#include "proxy/control/history.hpp"

namespace weir::proxy::control {

class Medians {
 public:
  static constexpr std::chrono::seconds window{60};

  /// The names are those of the history, which outlives it.
  Medians(const History& history, metrics::Moment now);

  struct Of {
    std::optional<double> ttft, tpot;  ///< In seconds.
  };
  Of of(std::string_view pool, std::string_view replica) const;

 private:
  std::map<std::pair<std::string_view, std::string_view>, Of> all_;  ///< By pool and replica.
};

}  // namespace weir::proxy::control

// Whether the load tool itself was fast enough: if it was not, its own delay is part of what it measured.
//
// The loop lag is how much later than asked for a timer of the loop runs. Requests go out as much later, and bytes wait
// to be read as long. Bytes have the kernel's stamp, but those that gather until they are read share one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lab/load/report.hpp"

namespace weir::lab::load {

struct OwnSpeed {
  std::vector<float> lags;  ///< Seconds.
  double cpu_share = 0;     ///< The load's thread computed for this share of the time.
};

/// Returns a sentence if the tool measured itself: a tenth of the lags is longer than a twentieth of the median TPOT or
/// TTFT, or the thread computed for more than 80 % of the time.
std::optional<std::string> too_slow(const OwnSpeed& own, const Tally& measured);

/// Returns the line of the table.
std::string own_line(const OwnSpeed& own);

}  // namespace weir::lab::load

// Rows of a comparison: the sums of what two sides did in one minute. A comparison is a function of such rows, so a
// running weir can let go of its requests, and a week of rows takes 3 MB.
#pragma once

#include <array>
#include <cstdint>

#include "metrics/compare/pairs/faults.hpp"
#include "metrics/compare/pairs/values.hpp"
#include "metrics/compare/statistics/sequence.hpp"
#include "metrics/compare/statistics/verdicts.hpp"

namespace weir::metrics::compare::table {

/// Sums of a quantity over a minute's requests: of pairs, of those of which both sides have it.
struct Sums {
  std::uint32_t count_a = 0, count_b = 0;
  float a = 0, b = 0;                ///< Values above ten times the usual one count as that.
  float log_a = 0, log_b = 0;        ///< Of the values' logarithms, and none is below a fiftieth of the usual one.
  float square_a = 0, square_b = 0;  ///< Of the squares of the values, which tell of the slow ones.
  /// The greater of a side's median and 0.3 of its 95th percentile, so that a tenth of the requests that take long by
  /// their nature are usual as well; the smaller of both sides. The usual value is the median of it over ten rows.
  /// 0 without values.
  float usual = 0;
};

/// Pairs that tell a fault, by the sides that have it; of a split, the requests that tell it, and the conversations
/// that have it for the first time. No count is above 65,535.
struct FaultSums {
  std::uint32_t pairs = 0;
  std::uint16_t both = 0, only_a = 0, only_b = 0;
  /// Half minutes in which that side alone has it more often than the other alone.
  std::uint8_t halves_a = 0, halves_b = 0;
};

struct Row {
  std::int64_t minute = 0;  ///< Since 1970, by the moment at which the primary was dispatched.
  std::array<Sums, pairs::quantity_count> sums;
  std::uint32_t requests_a = 0, requests_b = 0;      ///< Of warm shadows, as the sums are.
  float stalled_a = 0, stalled_b = 0;                ///< Seconds for which they stood still.
  std::array<FaultSums, pairs::fault_count> faults;  ///< Of all pairs, whether the shadows were warm or not.

  /// Returns the sums of a figure. Where the sides had different requests, each side's requests of a minute weigh as
  /// much as the other's, so that a side with more requests at night does not look like the night.
  statistics::RatioSums of(statistics::Figure figure) const;
  /// Returns them as they are, also where one side had no requests.
  statistics::RatioSums unweighted(statistics::Figure figure) const;
  /// Returns the sums of the squares of a mean time's values, weighed as of() does; nothing of other figures.
  statistics::RatioSums squares(statistics::Figure figure) const;
};

}  // namespace weir::metrics::compare::table

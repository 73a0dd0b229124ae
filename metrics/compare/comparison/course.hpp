// The course of TTFT and TPOT over the minutes of a window: a change at some moment, and a drift that lasts for
// minutes.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "metrics/compare/comparison/comparison.hpp"

namespace weir::metrics::compare::comparison {

/// A window longer than 60 days is a mistake, and would take memory for each of its minutes.
inline constexpr double longest_s = 60 * 86400;

/// The values of the two times that a comparison looks into, of the samples that are held.
struct Times {
  statistics::SideValues ttft, tpot;

  std::array<std::pair<statistics::Metric, const statistics::SideValues*>, 2> each() const {
    return {std::pair(statistics::Metric::ttft, &ttft), std::pair(statistics::Metric::tpot, &tpot)};
  }
};

/// Returns ln(b/a) of each whole minute of a part of the window that begins as the window does. `held` are the values
/// of the samples that are there; `past` has the minutes before, and is null where the samples have all.
statistics::Minutes minutes_of(statistics::Metric metric, const statistics::SideValues& held,
                               const statistics::Window& window, const Past* past);

/// Returns the times that changed by more than their margin.
std::vector<Changed> changes_of(const Times& times, const statistics::Window& window, const Options& options,
                                const Past* past);

/// Returns the times whose differences drift slowly, so that blocks are no independent values of them.
std::vector<statistics::Metric> drifting(const Times& times, const statistics::Window& window, const Past* past);

}  // namespace weir::metrics::compare::comparison

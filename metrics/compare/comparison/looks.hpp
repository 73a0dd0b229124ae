// Which part of a window the verdicts are about that have no history: all of a declared window at its end, else what
// had come at the last of look_seconds (past.hpp).
#pragma once

#include <cstdint>
#include <optional>

#include "metrics/compare/comparison/comparison.hpp"

namespace weir::metrics::compare::comparison {

struct Judged {
  statistics::Window window{};  ///< Up to the last look.
  std::optional<Look> look{};   ///< Nothing where the window is declared, or the sides are apart.
  double needed_s = 0;          ///< A window of this length would do.
  bool ended = false;           ///< The window is declared, and the samples reach its end.
  bool too_short = false;       ///< Nothing can be judged yet.
};

/// `comparison` has its window and its counts. `needed_s` is the shortest window whose blocks are long enough, and
/// `last_us` the last moment that the samples tell of. `past` is null where the samples have all.
Judged judged_part(const Comparison& comparison, const Past* past, double needed_s, std::int64_t last_us);

/// True if a stretch is long enough. The last request need not lie at its very end.
bool reaches(double seconds, double needed_s);

}  // namespace weir::metrics::compare::comparison

// Decides when an engine's own pages are read, and how long their figures are good. No clock is read.
//
// Engines have stalled under scrapes alone. So a slow engine is read less often: the pause is at least 20 times what
// the reading took. An engine that has no metrics page is asked for one every 5 minutes, and its identity, too.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "metrics/moment.hpp"

namespace weir::proxy::fleet {

class ReadingSchedule {
 public:
  using Duration = std::chrono::steady_clock::duration;
  static constexpr int pauses_by_duration = 20;
  static constexpr std::chrono::minutes rarely{5};

  enum class End : std::uint8_t { came, missing, failed };

  /// True if the page is to be asked for.
  bool due(metrics::Moment now) const { return now >= page_at_; }
  /// True if the pages that identify the engine are to be asked for, too.
  bool identity_due(metrics::Moment now) const { return now >= identity_at_; }

  /// The engine may have been started anew: its pages are read at once.
  void came_back() {
    identity_at_ = metrics::Moment::min();
    look_at(metrics::Moment::min());
  }

  /// Plans a reading for this moment, whatever the pause. A reading that is under way does not count as this one.
  void look_at(metrics::Moment when) { page_at_ = wanted_at_ = when; }

  /// A reading begins.
  void began() { wanted_at_ = metrics::Moment::max(); }

  /// The page was asked for, which took so long. Returns until when its figures are good: two pauses.
  metrics::Moment ended(End end, Duration took, Duration interval, metrics::Moment now) {
    const Duration pause = std::max(end == End::missing ? Duration(rarely) : interval, took * pauses_by_duration);
    page_at_ = std::min(now + pause, wanted_at_);
    return now + 2 * pause;
  }
  void identified(metrics::Moment now) { identity_at_ = now + rarely; }

 private:
  metrics::Moment page_at_ = metrics::Moment::min(), identity_at_ = metrics::Moment::min();
  metrics::Moment wanted_at_ = metrics::Moment::max();  ///< A reading was wanted then, since the latest began.
};

}  // namespace weir::proxy::fleet

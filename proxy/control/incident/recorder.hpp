// The flight recorder: when weir or one of its pools can serve no request, it writes a report of the minutes before
// into a folder.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "metrics/moment.hpp"
#include "proxy/control/slow_answers.hpp"
#include "proxy/live/live.hpp"

namespace weir::proxy::control::incident {

/// Returns what stops requests now: weir is not ready, or a pool has no replica that is up. "" is nothing.
std::string incident_in(const live::Now& now);

/// Says when a report is due. A plain machine without a clock.
class WhenToRecord {
 public:
  static constexpr std::chrono::hours at_most_every{1};

  /// True at the first second in an hour in which all is not well though it was before. A weir that starts, or that
  /// drains because it was told to, is no incident.
  bool is_due(bool well, bool draining, metrics::Moment now);

 private:
  bool was_well_ = false;
  std::optional<metrics::Moment> last_;
};

/// Keeps as many reports in a folder, the latest ones; it removes no other file.
inline constexpr std::size_t most_reports = 20;
void remove_old_reports(const std::string& folder);

/// On the control thread; pages are made and written on that of slow answers.
class Recorder {
 public:
  /// `make` returns a report's data; `live` and `slow` outlive the object.
  Recorder(live::Live& live, SlowAnswers& slow,
           std::function<std::string(std::string_view because)> make)
      : live_(live), slow_(slow), make_(std::move(make)) {}

  /// Does what is due in a second. `folder` is [admin] reports; "" means that nothing is recorded.
  void tick(const std::string& folder, metrics::Moment now);

 private:
  void write(const std::string& folder, const std::string& incident);

  live::Live& live_;
  SlowAnswers& slow_;
  const std::function<std::string(std::string_view)> make_;
  WhenToRecord when_;
  std::string folder_;
  std::uint64_t serial_ = 0;
};

}  // namespace weir::proxy::control::incident

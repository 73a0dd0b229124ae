// The report of an incident: the live page of the last minutes, all events, the settings without secrets, and the
// machine, in one file that needs no network. docs/reference/api.md defines its data.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "config/settings.hpp"
#include "metrics/moment.hpp"
#include "metrics/wire/json/writer.hpp"
#include "proxy/admin/api.hpp"
#include "proxy/live/live.hpp"

namespace weir::proxy::admin {

inline constexpr std::chrono::seconds longest_report{live::Seconds::window};

/// Returns the report's data as JSON; "" before weir's first second. `because` says why it was made. On the control
/// thread; the cost is at most that of an answer of /api/live, of the largest one of /api/live/window, and of all
/// events.
std::string report_data(live::Live& live, const config::Settings& settings, std::chrono::seconds last,
                        std::string_view because);

/// Returns the page of such data. On any thread.
std::string report_page(std::string_view data);

// GET /api/report: a page, or its data, about the last minutes (docs/reference/api.md).

ApiAnswer report_answer(std::string_view query, live::Live& live, const config::Settings& settings);

/// Returns the name of a report's file that was made at this moment: "weir-report-20261121T070000Z.html".
std::string report_file_name(std::chrono::system_clock::time_point time);
inline constexpr std::string_view file_begin = "weir-report-", file_end = ".html";

// The flight recorder: when weir or one of its pools can serve no request, it writes a report of the minutes before
// into a folder.

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
  Recorder(live::Live& live, SlowAnswers& slow, std::function<std::string(std::string_view because)> make)
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

// Facts of the machine that a reader of a report needs: on what weir ran, and how busy all of it was.

/// Writes {"host","kernel","cpu","cpus","memory_bytes","memory_available_bytes","load":[1, 5, 15 minutes],"uptime_s"}.
/// An unknown fact is null. It reads two files of /proc.
void write_machine(metrics::wire::JsonWriter& json);

}  // namespace weir::proxy::admin

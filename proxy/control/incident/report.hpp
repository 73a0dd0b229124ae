// The report of an incident: the live page of the last minutes, all events, the settings without secrets, and the
// machine, in one file that needs no network. docs/reference/api.md defines its data.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "config/settings.hpp"
#include "metrics/moment.hpp"
#include "proxy/live/live.hpp"

namespace weir::proxy::control::incident {

inline constexpr std::chrono::seconds longest{live::Seconds::window};

/// Returns the report's data as JSON; "" before weir's first second. `because` says why it was made. On the control
/// thread; the cost is at most that of an answer of /api/live, of the largest one of /api/live/window, and of all
/// events.
std::string data(live::Live& live, const config::Settings& settings, std::chrono::seconds last,
                 std::string_view because);

/// Returns the page of such data. On any thread.
std::string page(std::string_view data);

/// Returns the name of a report's file that was made at this moment: "weir-report-20261121T070000Z.html".
std::string file_name(std::chrono::system_clock::time_point time);
inline constexpr std::string_view file_begin = "weir-report-", file_end = ".html";

}  // namespace weir::proxy::control::incident

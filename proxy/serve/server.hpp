// The program at work: stream loops on threads of their own, and the control thread, which accepts, reloads, drains,
// resolves names and answers scrapes.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "config/load.hpp"

namespace weir::proxy::serve {

/// Reads the settings again, for a reload.
using LoadSettings = std::function<config::LoadResult()>;
/// Makes an error about a key of a table of the file that LoadSettings reads. On any thread.
using BlameSettings =
    std::function<config::SettingsError(const std::string& table, std::string_view key, std::string_view problem)>;

/// Serves until a signal ends it. TERM and INT drain (limits.drain_delay, limits.drain); a second one stops at once.
/// HUP reloads; USR1 opens the request log anew. Returns the program's exit status: 0, or 1 with a sentence in the log
/// if it cannot listen on an address or open the request log.
int serve(const config::Settings& settings, LoadSettings load, BlameSettings blame, const std::string& version);

}  // namespace weir::proxy::serve

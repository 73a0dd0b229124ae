// A program's words on its command line: parses them, and says of a wrong one which was meant.
#pragma once

#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace weir::config {

inline constexpr int wrong_usage = 2;

/// Nothing where the command line is right; else help, version or an error has been printed, and this is the exit
/// status. Callbacks of subcommands have run within.
std::optional<int> parse_command_line(CLI::App& app, int argc, const char* const* argv);

/// The sentence about the first word that belongs nowhere, "" where there is none. After `app` has parsed.
std::string wrong_word(const CLI::App& app);

}  // namespace weir::config

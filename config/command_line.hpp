// Parses a program's words on its command line, and suggests the right word for a wrong one.
#pragma once

#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace weir::config {

inline constexpr int wrong_usage = 2;

/// Returns nothing if the command line is right. Without words it prints help, as for `help`; `help COMMAND`, `version`
/// and `-V` are read as people mean them; to ask for the help of an unknown command is wrong usage. Otherwise help,
/// version or an error has been printed, and the result is the exit status. Callbacks of subcommands run within the
/// call. No option takes "" for a value. An unsigned option takes decimal digits alone, without a zero before them.
std::optional<int> parse_command_line(CLI::App& app, int argc, const char* const* argv);

/// Returns the exit status of a program that ends with `status`: 1 in place of 0 where standard output did not take all
/// that was printed, which standard error then says. Nothing may be printed behind it.
int after_output(int status);

/// Returns the sentence about the first word that belongs nowhere, or "" if there is none. It is to be called after
/// `app` has parsed.
std::string wrong_word(const CLI::App& app);

}  // namespace weir::config

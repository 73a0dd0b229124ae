// Shows in an error what stands in the file: short, on one line, without control characters, without passwords.
#pragma once

#include <toml++/toml.h>
#include <string>
#include <string_view>

namespace weir::config {

/// Shows a value, about as it was written; lists and tables only as "[...]" and "{...}".
std::string show(const toml::node& value);

/// Shows text in quotes.
std::string show_text(std::string_view text);

/// Shows a key: bare if TOML allows that, else in quotes.
std::string show_key(std::string_view key);

/// Returns any text with its control characters escaped, as in TOML.
std::string one_line(std::string_view text);

}  // namespace weir::config

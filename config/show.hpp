// How an error shows what stands in the file: short, on one line, without control characters, without passwords.
#pragma once

#include <toml++/toml.h>
#include <string>
#include <string_view>

namespace weir::config {

/// A value, about as it was written; lists and tables only as "[...]" and "{...}".
std::string show(const toml::node& value);

/// A key: bare where TOML lets it be bare, else in quotes.
std::string show_key(std::string_view key);

/// Any text with its control characters escaped, as in TOML.
std::string one_line(std::string_view text);

}  // namespace weir::config

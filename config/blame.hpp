// Blames a value of a settings file for what only the program at work can find out.
#pragma once

#include <string>
#include <string_view>

#include "config/load.hpp"

namespace weir::config {

/// Returns an error about `key` of the table [`table`], as load_file() would give it. The file is read again; without
/// the key there, or if it cannot be read any more, no line is named.
SettingsError blame(const std::string& file, const std::string& table, std::string_view key, std::string_view problem);

}  // namespace weir::config

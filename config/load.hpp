// Reads settings from TOML. Every error names the file, line, key and value and says the way out; all errors come at
// once.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/settings.hpp"

namespace weir::config {

/// An error in a settings file.
struct SettingsError {
  std::string file;
  unsigned line = 0;    ///< Counts from 1; 0 if no line is to blame (the file cannot be read).
  unsigned column = 0;  ///< Counts from 1; 0 in the same case.
  std::string message;  ///< Names key and value and says what would be right.
  /// Returns "FILE:LINE:COLUMN: message", as compilers write it.
  std::string text() const;
};

using LoadResult = std::variant<Settings, std::vector<SettingsError>>;

/// Reads a settings file. A syntax error comes alone; other errors come together, in order of line.
LoadResult load_file(const std::string& path);

/// Reads text in memory in the same way; errors give `file` as the name.
LoadResult load_text(std::string_view toml, const std::string& file);

}  // namespace weir::config

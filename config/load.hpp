// TOML -> Settings. Every error names the file, line, key and value and says the way out; all errors come at once.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/settings.hpp"

namespace weir::config {

/// One thing wrong with a settings file.
struct SettingsError {
  std::string file;
  unsigned line = 0;    ///< 1-based; 0 where no line is to blame (file unreadable).
  unsigned column = 0;  ///< 1-based; 0 likewise.
  std::string message;  ///< Names key and value and says what would be right.
  /// "FILE:LINE:COLUMN: message", as compilers write it.
  std::string text() const;
};

using LoadResult = std::variant<Settings, std::vector<SettingsError>>;

/// Reads a settings file. A syntax error comes alone, all others together, in order of line.
LoadResult load_file(const std::string& path);

/// The same for text in memory; `file` is the name that errors give.
LoadResult load_text(std::string_view toml, const std::string& file);

}  // namespace weir::config

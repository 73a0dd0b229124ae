// Reads a file of settings or of keys into memory.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "config/parsed.hpp"

namespace weir::config {

/// A kind of file, with the words for the sentence that says the way out. The limit is far above any real file. It
/// keeps a wrong path (a log, a device) from filling the memory.
struct KindOfFile {
  std::string_view holds, usual_name;
  std::size_t most_mib;
};
inline constexpr KindOfFile file_of_settings{"settings", "weir.toml", 1}, file_of_keys{"keys", "keys.toml", 16};

/// Returns the whole file, or why it cannot be read.
Parsed<std::string> read_text_file(const std::string& path, const KindOfFile& kind);

}  // namespace weir::config

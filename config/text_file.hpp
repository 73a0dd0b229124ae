// Reads a file of settings or of keys into memory.
#pragma once

#include <string>
#include <string_view>

#include "config/parsed.hpp"

namespace weir::config {

/// Returns the whole file, which may have at most 1 MiB, or why it cannot be read. `what` is what it holds ("settings")
/// and `usual_name` what it is called ("weir.toml"), for the sentence that says the way out.
Parsed<std::string> read_text_file(const std::string& path, std::string_view what, std::string_view usual_name);

}  // namespace weir::config

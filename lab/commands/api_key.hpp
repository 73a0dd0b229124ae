// Reads the key of a service that is measured.
#pragma once

#include <string>

namespace weir::lab::commands {

/// Reads a file that holds only a key. Throws CLI::ValidationError with a sentence, which names the option and never
/// shows the key.
std::string read_api_key(const std::string& option, const std::string& path);

}  // namespace weir::lab::commands

// Reads the key that weir sends to a replica, from the settings or from a file of its own beside them. Problems never
// show it.
#pragma once

#include <toml++/toml.h>

#include <string>

#include "config/parsed.hpp"

namespace weir::config {

/// Reads the key itself, in quotes.
Parsed<std::string> api_key(const toml::node& node);

/// Takes the path of a file that holds only the key, and reads the file here. The newline at its end is no part of the
/// key.
Parsed<std::string> api_key_file(const toml::node& node);

}  // namespace weir::config

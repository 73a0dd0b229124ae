// The key that weir sends to a replica: in the settings, or in a file of its own beside them. Problems never say it.
#pragma once

#include <toml++/toml.h>

#include <string>

#include "config/parsed.hpp"

namespace weir::config {

/// The key itself, in quotes.
Parsed<std::string> api_key(const toml::node& node);

/// The path of a file that holds nothing but the key, and is read here; the newline at its end is no part of it.
Parsed<std::string> api_key_file(const toml::node& node);

}  // namespace weir::config

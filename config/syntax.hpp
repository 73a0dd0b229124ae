// Says what is wrong with TOML's syntax: toml++'s words, and the way out for the mistakes that people make most.
#pragma once

#include <toml++/toml.h>

#include <string>

#include "config/load.hpp"

namespace weir::config {

/// The message shows no value, because a half written one may be a secret, and no client's key or hash that stands in
/// place of a name.
SettingsError syntax_error(const std::string& file, const toml::parse_error& error);

}  // namespace weir::config

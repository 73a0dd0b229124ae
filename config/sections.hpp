// Reads the tables of a settings file except its pools: [server], [metrics], [admin], [log], [limits], [measure],
// [discovery].
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/settings.hpp"
#include "config/table_reader.hpp"

namespace weir::config {

/// An address on which weir will listen, and the place in the file that says so.
struct Listener {
  std::string table;  ///< "[server]", "[metrics]" or "[admin]".
  ListenAddress address;
  const toml::node* written = nullptr;  ///< Null for a default.
};

/// Reads the tables into `settings`. Returns the listeners, for rules about all of them; a listener with an error is
/// left out.
std::vector<Listener> read_sections(TableReader& file, Settings& settings, Report& report);

}  // namespace weir::config

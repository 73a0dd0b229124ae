// The tables of a settings file but its pools: [server], [metrics], [admin], [log], [limits], [measure].
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/settings.hpp"
#include "config/table_reader.hpp"

namespace weir::config {

/// An address that weir will listen on, and where that was said.
struct Listener {
  std::string table;  ///< "[server]", "[metrics]", "[admin]".
  ListenAddress address;
  const toml::node* written = nullptr;  ///< Null for a default.
};

/// Reads them into `settings`; the listeners come back for rules about all of them. One that is wrong is not among
/// them.
std::vector<Listener> read_sections(TableReader& file, Settings& settings, Report& report);

}  // namespace weir::config

// Reads the tables of a settings file except its pools: [server], [metrics], [admin], [log], [limits], [measure],
// [discovery].
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.hpp"
#include "config/table_reader.hpp"

namespace weir::config {

/// An address on which weir will listen, and the place in the file that says so.
struct Listener {
  std::string table;  ///< It is "[server]", "[metrics]" or "[admin]".
  ListenAddress address;
  const toml::node* written = nullptr;  ///< It is null for a default.
};

/// Why an admin listener that others than this machine reach is refused without a token, as the end of "KEY = VALUE: ".
inline constexpr std::string_view admin_needs_a_token =
    "is reached from other machines, and whoever reaches this listener can change what weir does: set token in [admin], "
    "or listen on a loopback address such as \"127.0.0.1:9091\" or on a socket such as \"unix:/run/weir/admin.sock\"";

/// Reads the tables into `settings`. Returns the listeners, for rules about all of them; a listener with an error is
/// left out.
std::vector<Listener> read_sections(TableReader& file, Settings& settings, Report& report);

}  // namespace weir::config

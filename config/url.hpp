// The URL of a replica is `http://host[:port][/prefix]`, and holds nothing that a URL could hold beyond that.
#pragma once

#include <string>
#include <string_view>

#include "config/parsed.hpp"
#include "config/settings.hpp"

namespace weir::config {

/// Refuses https, user names, queries, fragments and hosts that are neither a name nor an address.
Parsed<ReplicaUrl> parse_replica_url(std::string_view text);

/// The same text with what stands between `://` and the last `@` replaced by `***`: an error shows no password.
std::string without_credentials(std::string_view text);

}  // namespace weir::config

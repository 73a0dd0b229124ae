// Reads the URL of a replica, `http://host[:port][/prefix]`, the same with `https`, or `unix:/path`, which holds
// nothing beyond that.
#pragma once

#include <string>
#include <string_view>

#include "config/parsed.hpp"
#include "config/settings.hpp"

namespace weir::config {

/// Returns the text with its ASCII capitals as small letters.
std::string lower(std::string_view text);

/// Refuses other schemes, user names, queries, fragments and hosts that are neither a name nor an address.
Parsed<ReplicaUrl> parse_replica_url(std::string_view text);

/// Writes a URL as `parse_replica_url` reads it back.
std::string to_text(const ReplicaUrl& url);

/// Returns the text with `***` in place of what stands between `://` and the last `@`, and behind a `?` or `#`, so that
/// an error shows no password and no key. Where `://` is missing, that is what stands before the `@`, if there is a
/// colon in it, and behind a `?`.
std::string without_credentials(std::string_view text);

}  // namespace weir::config

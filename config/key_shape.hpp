// Knows what a client's key and its hash look like, to keep them out of names and errors.
#pragma once

#include <string>
#include <string_view>

namespace weir::config {

/// True for 64 hex digits, and for what `weir key new` makes: `weir-` and 43 characters of base64url.
bool looks_like_key_or_hash(std::string_view text);

/// Returns the text with the rest of each hash or key replaced by "...": of a hash 8 digits stay, of a key `weir-`. A
/// part of one counts if it has 32 characters, because errors cut what is long.
std::string without_keys_and_hashes(std::string_view text);

}  // namespace weir::config

// Reads the file of clients' keys that `server.api_keys` names: a [[key]] for each, with its name and its hash.
//
// The file holds no key, so that who reads it can use none. No error shows a hash or a key either, wherever it stands
// by mistake, and neither can be a name. What stands for the hash is not shown at all: it may be a key of any kind.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/load.hpp"
#include "config/settings.hpp"
#include "config/table_reader.hpp"

namespace weir::config {

using KeysResult = std::variant<std::vector<ClientKey>, std::vector<SettingsError>>;

/// Reads keys from text; errors give `file` as the name and come all at once, but for a syntax error. No two keys have
/// the same name or the same hash, and there is at least one: else nobody could enter.
KeysResult load_keys(std::string_view toml, const std::string& file);

/// Adds keys to the report's listing. Their table is always there, so that a key that comes or goes is told by its
/// name.
void list_keys(const SharedList<ClientKey>& keys, Report& report);

/// The model that a key may use has fewer bytes than this. weir cuts a longer name in a request, and two cut names
/// could be equal.
inline constexpr std::size_t longest_key_model = 127;
inline constexpr double least_share = 0.1, most_share = 10;

// Knows what a client's key and its hash look like, to keep them out of names and errors.

/// True for 64 hex digits, and for what `weir key new` makes: `weir-` and 43 characters of base64url.
bool looks_like_key_or_hash(std::string_view text);

/// Returns the text with the rest of each hash or key replaced by "...": of a hash 8 digits stay, of a key `weir-`. A
/// part of one counts if it has 32 characters, because errors cut what is long.
std::string without_keys_and_hashes(std::string_view text);

}  // namespace weir::config

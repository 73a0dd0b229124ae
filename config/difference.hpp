// Says in words what differs between two settings: what a reload changes.
//
// Settings are first written as a listing: plain text, with every key. So the settings of a running weir, which come as
// JSON, are compared as those of a file are. A listing shows no secret.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/settings.hpp"

namespace weir::config {

struct ListedKey {
  std::string key;                      ///< Within the sections it has the table's name in front: "limits.drain".
  std::string value;                    ///< As in the file, without quotes: "5m", "none". A secret is "hidden" or "none".
  std::optional<std::string> secret{};  ///< Compared and never shown. A listing from elsewhere lacks it.
  bool operator==(const ListedKey&) const = default;
};

/// A table of the file with a name of its own; or all the others, under the name "".
struct Listed {
  std::string name;    ///< "", "pool chat", "replica gpu0", "slo interactive".
  std::string within;  ///< The name of the pool of a replica, else "".
  std::vector<ListedKey> keys;
  bool operator==(const Listed&) const = default;
};

using Listing = std::vector<Listed>;

/// The readers of the file list their keys: see config/table_reader.hpp.
Listing listing_of(Settings settings);

/// Returns a clause for each change, such as "pool chat: replica gpu2 added" and "limits.first_token 5m -> 2m";
/// an empty list where the two are equal.
std::vector<std::string> difference(const Listing& before, const Listing& after);
std::vector<std::string> difference(const Settings& before, const Settings& after);

/// Returns the clauses of those changes that only a restart can make.
std::vector<std::string> needs_restart(const Listing& before, const Listing& after);

/// Secrets that both have and that one of them does not tell: nobody can say whether they differ.
std::vector<std::string> cannot_tell(const Listing& before, const Listing& after);

}  // namespace weir::config

// Reads a secret from the settings or from a file of its own beside them: weir's key for a replica, the admin token.
// Problems never show it.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <string_view>
#include <vector>

#include "config/parsed.hpp"

namespace weir::config {

/// Reads the secret itself, in quotes.
struct SecretText {
  std::string_view what;  ///< Problems call it so: "the replica's key".
  Parsed<std::string> operator()(const toml::node& node) const;
  std::string type() const { return "text"; }
};

/// Takes the path of a file that holds only the secret, and reads the file here. The newline at its end is no part of
/// the secret.
struct SecretFile {
  std::string_view what;
  Parsed<std::string> operator()(const toml::node& node) const;
  std::string type() const { return "file"; }
};

/// Returns a sentence for each of Settings::secret_files that any user of this machine may read or alter.
std::vector<std::string> exposed_secrets(const std::vector<std::string>& files);

}  // namespace weir::config

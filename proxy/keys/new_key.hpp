// Makes clients' keys: `weir key new` and `weir key hash`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weir::proxy::keys {

/// Returns 256 random bits as text: `weir-` and 43 characters of base64url. Throws std::runtime_error if the system has
/// no random numbers.
std::string random_key();

struct NewKey {
  std::string name;
  std::vector<std::string> models;
  std::optional<std::uint32_t> max_in_flight;
  std::optional<double> share;
  std::string append_to;  ///< A file of keys, which is made if it is not there; "" prints the lines.
};

/// Returns the lines that stand for this key in a file of keys. Only its hash is in them.
std::string lines_of(const NewKey& wanted, const std::string& key);

/// Prints a new key alone on standard output, and says on standard error what is to be done with it. Nothing is
/// printed or written if the file of keys would be wrong with it. Returns the program's exit status.
int make_key(const NewKey& wanted);

/// Reads a key from standard input and prints its hash. The newline at its end is no part of it. Returns the program's
/// exit status.
int print_hash();

}  // namespace weir::proxy::keys

// A file of clients' keys.
#pragma once

#include <string>
#include <vector>

#include "tests/integration/peers/weir_under_test.hpp"

namespace weir::integration {

/// Returns a [[key]] whose hash is computed here; `more` are further lines.
std::string key_lines(const std::string& name, const std::string& secret, const std::string& more = "");

/// A file that `weir key new` writes.
class KeysFile {
 public:
  std::string path() const { return (directory_.path() / "keys.toml").string(); }
  std::string text() const { return read_file(path()); }
  /// Makes a key, appends it to the file, and returns it.
  std::string add(const std::string& name, const std::vector<std::string>& more = {}) const;
  /// Takes the [[key]] of this name out of the file.
  void remove(const std::string& name) const;
  /// The same settings, with these keys for clients.
  WeirSettings asked_by(WeirSettings settings) const;

 private:
  TemporaryDirectory directory_;
};

}  // namespace weir::integration

// A file of clients' keys, which `weir key new` writes.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {

class KeysFile {
 public:
  std::string path() const { return (directory_.path() / "keys.toml").string(); }
  std::string text() const { return read_file(path()); }
  /// Makes a key, appends it to the file, and returns it.
  std::string add(const std::string& name, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command{weir_program(), "key", "new", name, "--append", path()};
    command.insert(command.end(), more.begin(), more.end());
    const auto done = run(command);
    EXPECT_EQ(done.exit.code, 0) << done.output;
    return done.output.substr(0, done.output.find('\n'));
  }
  /// Takes the [[key]] of this name out of the file.
  void remove(const std::string& name) const {
    auto all = text();
    const auto at = all.rfind("[[key]]", all.find("name = " + quoted(name)));
    const auto next = all.find("[[key]]", at + 1);
    all.erase(at, next == std::string::npos ? next : next - at);
    write_file(path(), all);
  }
  /// The same settings, with these keys for clients.
  WeirSettings asked_by(WeirSettings settings) const {
    settings.server["api_keys"] = quoted(path());
    return settings;
  }

 private:
  TemporaryDirectory directory_;
};

}  // namespace weir::integration

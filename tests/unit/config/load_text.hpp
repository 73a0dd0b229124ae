// A file with one good pool, a folder for files, and loading that must succeed or must fail.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "config/load.hpp"

namespace weir::config {

/// A pool without errors, in six lines.
inline const std::string one_pool =
    "[[pool]]\n"
    "name = \"chat\"\n"
    "[[pool.replica]]\n"
    "name = \"gpu0\"\n"
    "url = \"http://127.0.0.1:8001\"\n"
    "\n";

/// A pool with an old and a new version, and a shadow of the new one.
inline const std::string old_and_new =
    "[admin]\nstate = '/var/lib/weir'\n[[pool]]\nname = 'chat'\n"
    "replica = [{ name = 'a', url = 'http://a', config = 'old' }, { name = 'b', url = 'http://b', config = 'new' }]\n"
    "[[slo]]\nname = 'fast'\npool = 'chat'\ne2e = 1\n"
    "[[shadow]]\nname = 'fp8'\nof = 'chat'\ntwin = 'a'\nreplica = [{ name = 'c', url = 'http://b', config = 'new' }]\n";

/// A folder of the test's own, which is removed with it.
class Folder {
 public:
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  /// Returns the path of a new file with this content.
  std::string file(const std::string& content) { return file("file" + std::to_string(++files_), content); }
  std::string file(const std::string& name, const std::string& content) const {
    std::ofstream(path / name, std::ios::binary) << content;
    return *this / name;
  }
  std::string operator/(const std::string& name) const { return (path / name).string(); }

  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / ("weir_settings_" + std::to_string(::getpid()));

 private:
  int files_ = 0;
};

/// Returns the errors of a load as lines of output; empty if there are none.
template <class Result>
std::vector<std::string> texts_of(const Result& result) {
  std::vector<std::string> texts;
  if (const auto* errors = std::get_if<std::vector<SettingsError>>(&result)) {
    for (const auto& error : *errors) texts.push_back(error.text());
  }
  return texts;
}

/// Returns the errors of a text as lines of output; empty if it loads.
inline std::vector<std::string> errors_in(const std::string& toml) { return texts_of(load_text(toml, "weir.toml")); }

/// Returns the settings in a text that has to load.
inline Settings settings_in(const std::string& toml) {
  auto result = load_text(toml, "weir.toml");
  for (const auto& text : texts_of(result)) ADD_FAILURE() << text;
  auto* settings = std::get_if<Settings>(&result);
  return settings ? std::move(*settings) : Settings{};
}

}  // namespace weir::config

// The tests of settings share a file with one good pool, and loading that must succeed or must fail.
#pragma once

#include <gtest/gtest.h>

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

inline std::vector<std::string> texts_of(const LoadResult& result) {
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

#include "proxy/compare/recipe.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "config/load.hpp"
#include "proxy/compare/request.hpp"

namespace weir::proxy::compare {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::StartsWith;

constexpr const char* names[]{"upgrade", "quantised", "flags", "gpu"};

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

TEST(Recipe, ItsTextIsASettingsFile) {
  for (const auto* const name : names) {
    const auto* const recipe = find_recipe(name);
    ASSERT_NE(recipe, nullptr) << name;
    const auto loaded = config::load_text(recipe->text(), "weir.toml");
    if (const auto* errors = std::get_if<std::vector<config::SettingsError>>(&loaded)) {
      FAIL() << name << ": " << errors->front().text();
    }
    const auto& settings = std::get<config::Settings>(loaded);
    ASSERT_EQ(settings.pools.size(), 1U);
    ASSERT_EQ(settings.slos.size(), 1U);
    ASSERT_EQ(settings.shadows.size(), 2U);
    const auto &control = settings.shadows[0], &candidate = settings.shadows[1];
    const auto& primary = settings.pools[0].replicas[0];
    EXPECT_TRUE(control.control);
    EXPECT_FALSE(candidate.control);
    for (const auto& shadow : settings.shadows) EXPECT_EQ(shadow.twin, primary.name);
    EXPECT_EQ(control.replicas[0].config, primary.config) << "a control runs the primary's own configuration";
    EXPECT_NE(candidate.replicas[0].config, primary.config);
  }
}

/// The commands name what the settings have; tests/integration runs them.
TEST(Recipe, ItsCommandsAskForTheSidesOfItsSettings) {
  for (const auto* const name : names) {
    const auto text = find_recipe(name)->text();
    const auto settings = std::get<config::Settings>(config::load_text(text, "weir.toml"));
    int compared = 0;
    for (const auto& line : lines_of(text)) {
      EXPECT_LE(line.size(), 180U) << line;
      if (!line.starts_with("#   $ weir compare")) continue;
      ++compared;
      const auto words = words_of(line);
      const auto behind = [&](const char* option) {
        const auto at = std::ranges::find(words, option);
        return at == words.end() || at + 1 == words.end() ? std::string() : *(at + 1);
      };
      EXPECT_EQ(behind("--a"), settings.pools[0].replicas[0].config) << line;
      EXPECT_EQ(behind("--b"), settings.shadows[1].replicas[0].config) << line;
      EXPECT_EQ(behind("--slo"), settings.slos[0].name) << line;
      EXPECT_THAT(words, Contains("requests.jsonl"));
      // What stands behind the options is read as it is by the command itself.
      CompareOptions options;
      options.logs = {"requests.jsonl"};
      options.length = behind("--for");
      std::istringstream margins(behind("--margins"));
      for (std::string one; std::getline(margins, one, ',');) options.margins.push_back(one);
      const auto request = request_of(options);
      EXPECT_TRUE(std::holds_alternative<Request>(request)) << std::get<config::Problem>(request).text;
    }
    EXPECT_GE(compared, 1) << name;
  }
}

TEST(Recipe, WhatIsNoSettingIsAComment) {
  for (const auto* const name : names) {
    const auto lines = lines_of(find_recipe(name)->text());
    EXPECT_THAT(lines.front(), StartsWith("# "));
    for (const auto& line : lines)
      EXPECT_TRUE(line.empty() || line[0] == '#' || line[0] == '[' || line.find(" = ") != std::string::npos) << line;
  }
}

TEST(Recipe, AnUnknownNameHasNone) {
  EXPECT_EQ(find_recipe("update"), nullptr);
  EXPECT_EQ(find_recipe(""), nullptr);
  EXPECT_EQ(recipe_names(), "upgrade, quantised, flags and gpu");
}

}  // namespace
}  // namespace weir::proxy::compare

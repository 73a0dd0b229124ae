// TOML that is nested too deep is refused before the parser reads it, and nothing else is.
#include "config/nesting.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <toml++/toml.h>

#include <random>

#include "load_text.hpp"

namespace weir::config {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string repeated(std::string_view part, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += part;
  return all;
}

std::string place_in(std::string_view toml) {
  const auto deep = too_deep(toml);
  return deep ? std::to_string(deep->line) + ':' + std::to_string(deep->column) : "";
}

TEST(Nesting, OfTensOfThousandsIsRefusedAndNamesItsPlace) {
  constexpr std::size_t many = 60'000;
  const struct {
    std::string toml, place, told;
  } table[]{
      {repeated("a.", many) + "a = 1", "1:64", "more than 32 parts"},
      {"# ä\nä" + repeated(".a", many) + " = 1", "2:64", "more than 32 parts"},
      {repeated("\"a\" . ", many) + "a = 1", "1:191", "more than 32 parts"},
      {"[" + repeated("a.", many) + "a]", "1:65", "more than 32 parts"},
      {"[[" + repeated("a.", many) + "a]]", "1:66", "more than 32 parts"},
      {"x = {" + repeated("a.", many) + "a = 1}", "1:69", "more than 32 parts"},
      {"x = " + repeated("[", many) + repeated("]", many), "1:69", "more than 64 deep"},
      {"x = " + repeated("{a=", many) + "1" + repeated("}", many), "1:197", "more than 64 deep"},
      {"x = [\n" + repeated("{a=[", many), "2:128", "more than 64 deep"},
      {repeated("[", many), "1:65", "more than 64 deep"},
      {repeated("[a", many) + repeated("]", many), "1:129", "more than 64 deep"},
  };
  for (const auto& [toml, place, told] : table) {
    const auto deep = too_deep(toml);
    ASSERT_TRUE(deep.has_value()) << toml.substr(0, 20);
    EXPECT_EQ(place_in(toml), place) << toml.substr(0, 20);
    EXPECT_THAT(deep->message, HasSubstr(told));
    const auto errors = errors_in(toml);
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_THAT(errors[0], StartsWith("weir.toml:" + place + ": "));
  }
}

TEST(Nesting, AtTheLimitsIsTaken) {
  EXPECT_EQ(place_in(repeated("a.", most_key_parts - 1) + "a = 1"), "");
  EXPECT_EQ(place_in(repeated("a.", most_key_parts) + "a = 1"), "1:64");
  EXPECT_EQ(place_in("x = " + repeated("[", deepest_brackets) + repeated("]", deepest_brackets)), "");
  EXPECT_EQ(place_in("x = " + repeated("[", deepest_brackets + 1)), "1:69");
}

TEST(Nesting, OfTextsAndCommentsDoesNotCount) {
  const auto much = repeated("[{.", 1000);
  for (const auto& toml : std::initializer_list<std::string>{
           "# " + much,
           "x = 1 # " + much + "\ny = 2",
           "x = \"" + much + "\"",
           "x = \"\\\"" + much + "\\\\\"",
           "x = '" + much + "\\'",
           "x = \"\"\"\n" + much + "\n\"" + much + "\\\"\"\"" + much + "\"\"\"\"\"",
           "x = '''" + much + "\n'" + much + "''" + much + "'''''",
           "x = [\"" + much + "\", '" + much + "', # " + much + "\n]",
           "\"" + much + "\".'" + much + "' = 1",
           "x = \"\"\ny = ''\nz = \"\"\"\"\"\"\nw = ''''''",
           repeated("a.b = 1.5\n[c.d]\n[[e.f]]\nx = [1.5, {a.b = 2.5}]\n", 1000),
           repeated("x = 1979-05-27T07:32:00.999-07:00\n", 1000),
       }) {
    EXPECT_EQ(place_in(toml), "") << toml.substr(0, 30);
  }
}

TEST(Nesting, IsSeenBehindTextsAndCommentsToo) {
  const auto much = repeated("[", 100);
  for (const auto& toml : std::initializer_list<std::string>{
           "x = \"\"" + much,
           "x = ''" + much,
           "x = \"\"\"a\"\"\"" + much,
           "x = \"\"\"a\"\"\"\"\"" + much,
           "x = '''a''''" + much,
           "x = \"\\\\\"" + much,
           "x = '\\'" + much,
           "# \"\nx = " + much,
           "# '''\nx = " + much,
           "x = \"open\ny = " + much,
       })
    EXPECT_NE(place_in(toml), "") << toml;
}

/// How deep the parser went: headers, keys and brackets together.
std::size_t depth_of(const toml::node& node) {
  std::size_t deepest = 0;
  if (const auto* table = node.as_table())
    for (const auto& [key, value] : *table) deepest = std::max(deepest, depth_of(value));
  if (const auto* list = node.as_array())
    for (const auto& value : *list) deepest = std::max(deepest, depth_of(value));
  return deepest + 1;
}

/// Whatever text passes, the parser nests it no deeper than the limits allow together. Most texts here are no TOML.
TEST(Nesting, OfAnyTextThatPassesIsBounded) {
  const std::vector<std::string> pieces{"a",  "b",  "1",   ".",   "=",   "[",     "]",     "{",
                                        "}",  ",",  "\n",  "\"",  "'",   "#",     " ",     "\\",
                                        "[[", "]]", "'''", "{a=", "[a.", "a.b.c", "\"x\"", "\"\"\""};
  const auto many = repeated("a.", 200) + "a", deep = repeated("[", 200);
  std::mt19937 random(7);
  std::size_t parsed = 0, refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string toml;
    for (auto n = random() % 12; n > 0; --n) {
      const auto which = random() % (pieces.size() + 2);
      toml += which < pieces.size() ? pieces[which] : which == pieces.size() ? many : deep;
    }
    if (too_deep(toml)) {
      ++refused;
      continue;
    }
    try {
      EXPECT_LE(depth_of(toml::parse(toml)), 130u) << toml;
      ++parsed;
    } catch (const toml::parse_error&) {
    }
  }
  EXPECT_GT(parsed, 100u);
  EXPECT_GT(refused, 100u);
}

}  // namespace
}  // namespace weir::config

#include "metrics/wire/json/canonical.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace weir::metrics::wire {
namespace {

TEST(CanonicalJson, WritesEachValueInOneWay) {
  const std::pair<std::string, std::string> texts[] = {
      {"{}", "{}"},
      {" {\n} ", "{}"},
      {"[]", "[]"},
      {"[ ]", "[]"},
      {" 7", "7"},
      {"7", "7"},
      {"true", "true"},
      {"null\n", "null"},
      {R"("a")", R"("a")"},
      {R"("")", R"("")"},
      {R"({"b":1,"a":2})", R"({"a":2,"b":1})"},
      {R"({"b" : { "d" : [1 , 2,{ }] ,"c":false } , "a":[ ]})", R"({"a":[],"b":{"c":false,"d":[1,2,{}]}})"},
      {R"([3,1,2])", R"([3,1,2])"},  // An array has its own order.
      {R"({"a":1.0,"b":1e3,"c":12345678901234567890,"d":-0})", R"({"a":1.0,"b":1e3,"c":12345678901234567890,"d":-0})"},
      {R"("\u0041\/\u00e9\ud83d\ude42")", R"("A/é🙂")"},
      {R"("\"\\\u000a\u001f")", R"("\"\\\n\u001f")"},
      {R"({"\u0062":"}","a":",]\""})", R"({"a":",]\"","b":"}"})"},
      {R"({"a":2,"a":1})", R"({"a":2,"a":1})"},  // Nobody can tell which of them counts.
  };
  for (const auto& [text, written] : texts) EXPECT_EQ(canonical_json(text), written) << text;
}

TEST(CanonicalJson, IsNotMadeOfWhatIsNoJson) {
  for (const std::string text : {"", " ", "{", "}", "{}}", "{} {}", "{a:1}", R"({"a":1,})", R"({"a":})", "[1,]", "'a'",
                                 "01", "nul", R"("\ud83d")", "\"\xFF\"", R"({"a":1)", "tru e"})
    EXPECT_EQ(canonical_json(text), std::nullopt) << text;
  EXPECT_EQ(canonical_json(std::string(1000, '[') + std::string(1000, ']')), std::nullopt) << "nested too deep";
  EXPECT_TRUE(canonical_json(std::string(200, '[') + std::string(200, ']')));
}

TEST(CanonicalJson, IsItsOwnCanonicalFormWhateverTheOrderAndTheBlanks) {
  std::mt19937 random(7);
  const auto below = [&](unsigned bound) { return static_cast<unsigned>(random() % bound); };
  for (int round = 0; round < 500; ++round) {
    std::vector<std::string> members;
    for (unsigned i = 0, size = below(6); i < size; ++i)
      members.push_back("\"k" + std::to_string(i) +
                        "\":" + (below(2) ? std::to_string(i) : R"({"y":[1,"a b"],"x":null})"));
    const auto write = [&](const std::string& blank) {
      std::string text = "{" + blank;
      for (std::size_t i = 0; i < members.size(); ++i) text += (i > 0 ? "," + blank : "") + members[i] + blank;
      return text + "}";
    };
    const auto once = canonical_json(write(""));
    ASSERT_TRUE(once);
    ASSERT_EQ(canonical_json(*once), once);
    std::ranges::shuffle(members, random);
    ASSERT_EQ(canonical_json(write(" \n")), once);
  }
}

}  // namespace
}  // namespace weir::metrics::wire

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <boost/json.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "metrics/wire/json/writer.hpp"

namespace weir::metrics::wire {
namespace {

namespace json = boost::json;

TEST(JsonWriter, PutsCommasWhereTheyBelong) {
  JsonWriter writer;
  writer.open('{').key("a").open('[').decimal(0.1).decimal(std::nan("")).count(7).close(']');
  writer.key("b").open('{').close('}').key("c").text("x,\n{").key("d").boolean(true).key("e").null();
  writer.key("f").texts({"g", "h"}).key("i").texts({}).key("j").raw("[1]").key("k").count(2).close('}');
  EXPECT_EQ(writer.written(),
            R"({"a":[0.1,null,7],"b":{},"c":"x,\n{","d":true,"e":null,"f":["g","h"],"i":[],"j":[1],"k":2})");
}

TEST(JsonWriter, EscapesKeysThatAreNotItsSources) {
  JsonWriter writer;
  writer.open('{').key(std::string("a\"\n")).count(1).close('}');
  EXPECT_EQ(writer.written(), R"({"a\"\n":1})");
}

TEST(JsonWriter, EscapesWhatWouldSteerATerminalOrAnEditor) {
  const auto written = [](const std::string& text) {
    JsonWriter writer;
    writer.text(text);
    return writer.written();
  };
  EXPECT_EQ(written("\x1b[31m\x7f"), R"("\u001b[31m\u007f")");
  EXPECT_EQ(written("\u0080\u0085\u009b\u009f"), R"("\u0080\u0085\u009b\u009f")");
  EXPECT_EQ(written("\u2028\u2029\u202a\u202e\u2066\u2069"), R"("\u2028\u2029\u202a\u202e\u2066\u2069")");
  for (const std::string text : {"\u00a0\u00e9", "\u2027\u202f", "\u2065\u206a", "\u4f60\u597d", "\U0001f600"})
    EXPECT_EQ(written(text), '"' + text + '"');
  for (const std::string text : {"a\u009bb\u202ec", "\x7f\u2028"})
    EXPECT_EQ(json::parse(written(text)).as_string(), text) << "the same text to a reader";
}

TEST(JsonWriter, WritesNullForWhatIsAbsent) {
  JsonWriter writer;
  writer.open('[').known_text("").count({}).decimal({}).fixed({}, 3).exact({}).boolean({}).close(']');
  EXPECT_EQ(writer.written(), "[null,null,null,null,null,null]");
}

TEST(JsonWriter, WritesNumbersThatJsonKnows) {
  for (const double value : {0.0, -0.08125, 1e-9, 123456789.0, 1e300, -1.5e-7}) {
    JsonWriter writer;
    writer.decimal(value);
    EXPECT_NEAR(json::parse(writer.written()).to_number<double>(), value, std::abs(value) * 1e-5) << writer.written();
  }
}

TEST(JsonWriter, WritesFixedDigitsWithoutZerosBehindThem) {
  JsonWriter writer;
  writer.open('[').fixed(1.5, 9).fixed(0.00004, 9).fixed(2, 3).fixed(1.0006, 3).fixed(-1, 3).fixed(std::nan(""), 3);
  EXPECT_EQ(writer.close(']').written(), "[1.5,0.00004,2,1.001,null,null]");
}

/// Clients of /api/ have always read numbers in Boost.JSON's form.
TEST(JsonWriter, WritesExactNumbersAsBoostDoes) {
  std::mt19937_64 random(7);
  std::vector<double> values{0.0, -0.0, 1, 10, 0.1, 12.5, 1e22, 1e23, 1e100, -1e-100, 5e-324, 1.7976931348623157e308};
  while (values.size() < 2000) values.push_back(std::bit_cast<double>(random()));
  for (const double value : values) {
    JsonWriter writer;
    writer.exact(value);
    EXPECT_EQ(writer.written(), std::isfinite(value) ? json::serialize(json::value(value)) : "null");
  }
}

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

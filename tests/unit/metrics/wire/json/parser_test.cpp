#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "metrics/wire/json/parser.hpp"
#include "tests/unit/split_grid.hpp"

namespace weir::metrics::wire {
namespace {

std::string shown(double number) { return std::isnan(number) ? "nan" : std::to_string(number); }

/// Writes down what it is told. How a string was cut does not show.
class Told : public Sax {
 public:
  void object_begin() { told += "{"; }
  void object_end(std::size_t n) { told += "}" + std::to_string(n); }
  void array_begin() { told += "["; }
  void array_end(std::size_t n) { told += "]" + std::to_string(n); }
  void key_text(std::string_view piece) { text += piece; }
  void key(std::string_view name) {
    EXPECT_EQ(name, text.size() <= 32 ? text : "");
    told += "key<" + text + ">";
    text.clear();
  }
  void string(std::string_view piece, bool last) {
    text += piece;
    if (!last) return;
    told += "string<" + text + ">";
    text.clear();
  }
  void number(double value, std::size_t bytes) { told += shown(value) + "#" + std::to_string(bytes) + " "; }
  void boolean(bool value) { told += value ? "yes " : "no "; }
  void null() { told += "null "; }

  std::string told, text;
};

struct Reading {
  bool whole, broken;
  std::string told;  // Empty of a document that is not whole: how far it was read is no one's business.

  bool operator==(const Reading&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Reading& reading) {
  return out << (reading.whole ? "whole " : "") << (reading.broken ? "broken " : "") << reading.told;
}

Reading read(std::initializer_list<std::string_view> pieces) {
  JsonParser<Told> parser;
  for (const std::string_view piece : pieces) parser.feed(piece);
  return {parser.whole(), parser.broken(), parser.whole() ? parser.reader().told : ""};
}

/// The second opinion: boost::json, which sees the document in one piece.
class ToldByBoost {
 public:
  using error_code = boost::json::error_code;
  using piece = boost::json::string_view;
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = max_object_size;
  static constexpr std::size_t max_key_size = max_object_size;
  static constexpr std::size_t max_string_size = max_object_size;
  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_object_begin(error_code&) { return to.object_begin(), true; }
  bool on_object_end(std::size_t n, error_code&) { return to.object_end(n), true; }
  bool on_array_begin(error_code&) { return to.array_begin(), true; }
  bool on_array_end(std::size_t n, error_code&) { return to.array_end(n), true; }
  bool on_key_part(piece s, std::size_t, error_code&) { return to.text += std::string_view(s), true; }
  bool on_key(piece s, std::size_t, error_code&) {
    to.text += std::string_view(s);
    to.key(to.text.size() <= 32 ? to.text : "");
    return true;
  }
  bool on_string_part(piece s, std::size_t, error_code&) { return to.string(std::string_view(s), false), true; }
  bool on_string(piece s, std::size_t, error_code&) { return to.string(std::string_view(s), true), true; }
  bool on_number_part(piece s, error_code&) { return number += std::string_view(s), true; }
  bool on_int64(std::int64_t, piece s, error_code&) { return end_number(s); }
  bool on_uint64(std::uint64_t, piece s, error_code&) { return end_number(s); }
  bool on_double(double, piece s, error_code&) { return end_number(s); }
  bool on_bool(bool v, error_code&) { return to.boolean(v), true; }
  bool on_null(error_code&) { return to.null(), true; }
  bool on_comment_part(piece, error_code&) { return true; }
  bool on_comment(piece, error_code&) { return true; }

  Told to;

 private:
  bool end_number(piece s) {
    number += std::string_view(s);
    const double value = std::strtod(number.c_str(), nullptr);
    to.number(number.size() > 64 || std::isinf(value) ? std::nan("") : value, number.size());
    number.clear();
    return true;
  }
  std::string number;
};

/// Absent where Boost has no opinion: it refuses exponents that its own int does not hold, which are JSON.
std::optional<Reading> read_by_boost(const std::string& document) {
  boost::json::parse_options options;
  options.max_depth = JsonParser<Told>::deepest;
  boost::json::basic_parser<ToldByBoost> parser(options);
  boost::json::error_code ec;
  const std::size_t used = parser.write_some(true, document.data(), document.size(), ec);
  if (ec == boost::json::error::exponent_overflow) return std::nullopt;
  const bool broken = ec.failed() || used < document.size();
  const bool whole = !broken && parser.done();
  return Reading{whole, broken, whole ? parser.handler().to.told : ""};
}

const std::vector<std::string>& documents() {
  static const std::vector<std::string> all{
      R"({})",
      R"([])",
      " \t\r\n{ \"a\" : [ ] , \"b\" : { } } \n",
      R"({"model":"m","messages":[{"role":"user","content":"Zwei\nZeilen, \"so\" \\ \/ \b\f\r\t"}],"n":2,"stream":true})",
      R"([0,-0,1,12,123456789012345,1234567890123456,18446744073709551615,18446744073709551616,-9223372036854775808])",
      R"([0.5,1e3,1E+3,1.25e-3,-1.5,0e0,0.1,3.14159265358979,1e308,-2.5E2])",
      R"([true,false,null,[true],[[],[[]],{"x":{"y":null}}]])",
      R"("A\u00e9\u4e2d\ud83d\ude00\u0000z")",
      "\"h\xC3\xA9, \xE4\xB8\xAD, \xF0\x9F\x98\x80\"",
      R"({"\u006dodel":"x","a key that is longer than thirty-two bytes":1,"exactly thirty-two bytes, a key!":2,"":3})",
      R"({"a":1,"a":2})",
      R"("\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587")",
      R"([11111111111111111111111111111111111111111111111111111111111111111111111,0.25])",
  };
  return all;
}

/// Takes half a surrogate pair, which an engine writes where it cuts an answer within an emoji.
struct TextOfHalves : Sax {
  static constexpr bool takes_half_pairs = true;
  void string(std::string_view piece, bool) { text += piece; }
  std::string text;
};

TEST(JsonParser, GivesAReaderThatTakesHalfPairsWhatTheStringSaysAtEverySplit) {
  for (const std::string inside :
       {R"(\ud83d)", R"(\ude42)", R"(a\ud83d)", R"(\ud83db)", R"(\ud83d\n)", R"(\ud83d\ud83d\ude42)", R"(\ude42\ud83d)",
        R"(\ud83d\u00e9)", R"(\ud83d\\u)", R"(\ud83d\ude42)", R"(\n\ud83d\")"}) {
    std::string wanted;
    undo_escapes(inside, [&](std::string_view piece) { wanted += piece; });
    const std::string document = '"' + inside + '"';
    for (std::size_t cut = 0; cut <= document.size(); ++cut) {
      JsonParser<TextOfHalves> parser;
      parser.feed(std::string_view(document).substr(0, cut));
      parser.feed(std::string_view(document).substr(cut));
      EXPECT_TRUE(parser.whole()) << document << " cut at " << cut;
      EXPECT_EQ(parser.reader().text, wanted) << document << " cut at " << cut;
    }
  }
}

TEST(JsonParser, BreaksAtHalfAPairWhereTheReaderDoesNotTakeIt) {
  for (const std::string document : {R"("\ud83d")", R"("\ude42")", R"("\ud83dx")", R"("\ud83d\n")", R"("\ud83d\u0041")",
                                     R"("\ud83d\ud83d\ude42")", R"({"\ud83d":1})"}) {
    for (std::size_t cut = 0; cut <= document.size(); ++cut) {
      const std::string_view text(document);
      EXPECT_TRUE(read({text.substr(0, cut), text.substr(cut)}).broken) << document << " cut at " << cut;
    }
  }
}

TEST(JsonParser, TellsWhatBoostTellsAtEverySplit) {
  for (const std::string& document : documents()) {
    const auto expected = read_by_boost(document);
    ASSERT_TRUE(expected && expected->whole) << document;
    for (std::size_t cut = 0; cut <= document.size(); ++cut)
      for (std::size_t second = cut; second <= document.size(); second += split_step) {
        const std::string_view text(document);
        ASSERT_EQ(read({text.substr(0, cut), text.substr(cut, second - cut), text.substr(second)}), *expected)
            << document << " cut at " << cut << " and " << second;
      }
  }
}

/// Each byte in turn is taken out, doubled, or another in its place: the two agree on what is no JSON.
TEST(JsonParser, JudgesWhatIsNearlyJsonAsBoostDoes) {
  constexpr std::string_view others("{}[],:\"\\/u0e1-+.tn \x01\x1F\x7F\x80\xC3\xED\xFF");
  int broken = 0;
  for (const std::string& document : documents()) {
    for (std::size_t at = 0; at < document.size(); ++at) {
      std::vector<std::string> near;
      near.push_back(std::string(document).erase(at, 1));
      near.push_back(std::string(document).insert(at, 1, document[at]));
      for (const char other : others) near.push_back(std::string(document).replace(at, 1, 1, other));
      for (const std::string& text : near) {
        const auto expected = read_by_boost(text);
        if (!expected) continue;
        const Reading found = read({text});
        ASSERT_EQ(found.whole, expected->whole) << text;
        ASSERT_EQ(found.told, expected->told) << text;
        // Broken UTF-8 may be seen at its last byte or only behind it.
        const bool ascii = std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
        if (ascii) {
          ASSERT_EQ(found.broken, expected->broken) << text;
        }
        broken += found.broken ? 1 : 0;
        ASSERT_EQ(read({std::string_view(text).substr(0, at), std::string_view(text).substr(at)}), found)
            << text << " cut at " << at;
      }
    }
  }
  EXPECT_GT(broken, 5000);
}

/// Given byte by byte, no key, string or number lies whole in its piece, so none is read at once.
TEST(JsonParser, ReadsWhatLiesWholeInAPieceAsItReadsSingleBytes) {
  const auto compare = [](std::string_view text) {
    JsonParser<Told> single, before, at_once;
    std::size_t read = 0;
    while (read < text.size() && !single.broken()) single.feed(text.substr(read++, 1));
    at_once.feed(text.substr(0, read));
    ASSERT_EQ(at_once.broken(), single.broken()) << text;
    ASSERT_EQ(at_once.whole(), single.whole()) << text;
    ASSERT_EQ(at_once.reader().told, single.reader().told) << text;
    if (!single.broken()) return;
    before.feed(text.substr(0, read - 1));
    ASSERT_FALSE(before.broken()) << text;
  };
  constexpr std::string_view others("{}[],:\"\\/u0e1-+.tn \x01\x1F");
  for (const std::string& document : documents()) {
    const bool ascii = std::ranges::all_of(document, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    if (!ascii) continue;  // Broken UTF-8 may be seen at its last byte or only behind it.
    compare(document);
    for (std::size_t at = 0; at < document.size(); ++at) {
      compare(std::string(document).erase(at, 1));
      compare(std::string(document).insert(at, 1, document[at]));
      compare(std::string_view(document).substr(0, at));
      for (const char other : others) compare(std::string(document).replace(at, 1, 1, other));
    }
  }
}

TEST(JsonParser, UndoesEscapesInTextThatIsGatheredMoreThanOnceAtEverySplit) {
  std::string inside;
  while (inside.size() < 2500) {
    inside += R"(\n\"\\\/\t)" + std::string(inside.size() % 37, 'a') + R"(\u00e9\ud83d\ude00)" +
              std::string(inside.size() % 5, 'b');
  }
  std::string wanted;
  undo_escapes(inside, [&](std::string_view piece) { wanted += piece; });
  const std::string document = '"' + inside + '"';
  for (std::size_t cut = 0; cut <= document.size(); ++cut) {
    const std::string_view text(document);
    ASSERT_EQ(read({text.substr(0, cut), text.substr(cut)}), (Reading{true, false, "string<" + wanted + ">"}))
        << "cut at " << cut;
  }
}

/// Reads some of the plain text of strings itself.
class Skims : public Told {
 public:
  const char* skim(const char* at, const char* end) {
    const std::ptrdiff_t size = std::min(times++ % 7 * 3, end_of_plain_text(at, end) - at);
    text.append(at, at + size);
    return at + size;
  }
  std::ptrdiff_t times = 0;
};

TEST(JsonParser, BringsTheRestOfAStringOfWhichAReaderHasReadTheBeginning) {
  for (const std::string& document : documents()) {
    for (std::size_t cut = 0; cut <= document.size(); ++cut) {
      JsonParser<Skims> parser;
      parser.feed(std::string_view(document).substr(0, cut));
      parser.feed(std::string_view(document).substr(cut));
      ASSERT_TRUE(parser.whole()) << document << " cut at " << cut;
      ASSERT_EQ(parser.reader().told, read({document}).told) << document << " cut at " << cut;
    }
  }
}

/// Takes what is written of the arrays in an object.
struct ArraysAsWritten : Sax {
  static constexpr bool takes_raw = true;
  void array_begin() {
    if (depth++ == 0) inside = true;
  }
  void array_end(std::size_t) {
    if (--depth == 0) ended = true;
  }
  void raw(std::string_view piece) {
    if (inside) written += piece;
    if (std::exchange(ended, false)) inside = false;
  }
  int depth = 0;
  bool inside = false, ended = false;
  std::string written;
};

TEST(JsonParser, TellsAContainerAsItIsWrittenAtEverySplit) {
  const std::string document = R"( {"a": [ 1, "x", {"b" :[true ]} ] , "c":[] ,"d":{"e":2}, "f" : [ [], 12 ]} )";
  for (std::size_t cut = 0; cut <= document.size(); ++cut)
    for (std::size_t second = cut; second <= document.size(); ++second) {
      const std::string_view text(document);
      JsonParser<ArraysAsWritten> parser;
      parser.feed(text.substr(0, cut));
      parser.feed(text.substr(cut, second - cut));
      parser.feed(text.substr(second));
      ASSERT_EQ(parser.reader().written, R"([ 1, "x", {"b" :[true ]} ][][ [], 12 ])") << cut << " " << second;
    }
}

TEST(JsonParser, TakesAnyExponent) {
  EXPECT_EQ(read({"[1e99999999999]"}), (Reading{true, false, "[nan#13 ]1"}));
  EXPECT_EQ(read({"[1e-99999999999]"}), (Reading{true, false, "[nan#14 ]1"}));
}

TEST(JsonParser, BoundsTheDepth) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(read({nested(256)}).whole);
  EXPECT_TRUE(read({nested(257)}).broken);
}

TEST(JsonParser, KnowsTheBytesThatEndPlainText) {
  for (int c = 0; c < 0x100; ++c) {
    const std::string text(20, static_cast<char>(c));
    const bool ends = c < ' ' || c == '"' || c == '\\';
    for (const std::size_t from : {std::size_t{0}, std::size_t{15}})  // In a block and alone.
      EXPECT_EQ(end_of_plain_text(text.data() + from, text.data() + text.size()),
                text.data() + (ends ? from : text.size()))
          << c;
  }
}

TEST(JsonParser, FindsTheEndOfPlainTextWhereverItLies) {
  const std::string_view ends("\"\\\x00\x1F\n", 5);
  for (std::size_t at = 0; at < 40; ++at)
    for (const char end : ends) {
      std::string text(40, 'a');
      for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i % 2 == 0 ? 0x80 + i * 3 : ' ' + i);
      for (char& c : text)
        if (c == '"' || c == '\\') c = '!';
      text[at] = end;
      for (std::size_t from = 0; from <= at; ++from)
        ASSERT_EQ(end_of_plain_text(text.data() + from, text.data() + text.size()), text.data() + at)
            << at << " " << from;
    }
}

enum class Place : std::uint8_t { ignored, root, inner, last };

struct Member {
  Place in;
  std::string_view key;
  Place place;
};

TEST(MemberIndex, LooksForAKeyInItsPlaceOnly) {
  const MemberIndex<Member, Place::last> index(
      {{Place::last, "a", Place::inner}, {Place::root, "a", Place::last}, {Place::root, "b", Place::root}});
  const auto place_of = [&](Place in, std::string_view key) {
    const Member* const found = index.find(in, key);
    return found == nullptr ? Place::ignored : found->place;
  };
  EXPECT_EQ(place_of(Place::root, "a"), Place::last);
  EXPECT_EQ(place_of(Place::root, "b"), Place::root);
  EXPECT_EQ(place_of(Place::last, "a"), Place::inner);
  EXPECT_EQ(place_of(Place::last, "b"), Place::ignored);
  EXPECT_EQ(place_of(Place::inner, "a"), Place::ignored);
  EXPECT_EQ(place_of(Place::ignored, "a"), Place::ignored);
  EXPECT_EQ(place_of(Place::root, ""), Place::ignored);
}

TEST(MemberIndex, KeepsTheFirstOfTwoMembersOfOneName) {
  const MemberIndex<Member, Place::last> index({{Place::root, "a", Place::inner}, {Place::root, "a", Place::last}});
  EXPECT_EQ(index.find(Place::root, "a")->place, Place::inner);
}

}  // namespace
}  // namespace weir::metrics::wire

#include "metrics/wire/json/text.hpp"

#include <gtest/gtest.h>

#include "metrics/wire/request/facts.hpp"

namespace weir::metrics::wire {
namespace {

TEST(StringBody, CountsCodePointsWithEscapesUndone) {
  const std::pair<std::string_view, std::uint64_t> bodies[] = {
      {"", 0},
      {"Hello", 5},
      {R"(a\nb)", 3},
      {R"(\"\\\/\b\f\n\r\t)", 8},
      {R"(\u00e9)", 1},
      {R"(\uD83D\uDE42)", 1},        // A pair is one.
      {R"(\uD83D\uD83D\uDE42)", 2},  // It is a half and a pair.
      {R"(\uDE42\uD83D)", 2},        // They are two halves, the wrong way round.
      {R"(\uD83Dx\uDE42)", 3},
      {"日本", 2},
      {"naïve🙂", 6},
      {"\x7F", 1},
  };
  for (const auto& [body, points] : bodies) EXPECT_EQ(code_points_of_string_body(body), points) << body;
}

TEST(StringBody, RefusesWhatCannotStandBetweenQuotes) {
  const std::string_view bodies[] = {
      R"(")",         R"(a"b)", R"(\)",
      R"(a\\\)",      R"(\x)",  R"(\u12)",
      R"(\u12g4)",    "a\nb",   std::string_view("\0", 1),
      "\x1F",         "\xFF",   "\xE6\x97",  // These are cut.
      "\xC0\x80",                            // It is overlong.
      "\xED\xA0\x80",                        // It is a surrogate in UTF-8.
  };
  for (const std::string_view body : bodies) EXPECT_FALSE(code_points_of_string_body(body)) << body;
}

std::string undone(std::string_view inside) {
  std::string text;
  undo_escapes(inside, [&](std::string_view piece) { text += piece; });
  return text;
}

TEST(StringBody, HasItsEscapesUndone) {
  const std::pair<std::string_view, std::string> bodies[] = {
      {"", ""},
      {"Hello", "Hello"},
      {R"(a\nb\u0020c)", "a\nb c"},
      {R"(\"\\\/\b\f\n\r\t)", "\"\\/\b\f\n\r\t"},
      {R"(\u00e9é)", "éé"},
      {R"(x\uD83D\uDE42y)", "x🙂y"},
      {R"(\uD83D\uD83D\uDE42)", "\uFFFD🙂"},
      {R"(\uDE42\uD83D)", "\uFFFD\uFFFD"},
      {R"(\uD83Dx\n)", "\uFFFDx\n"},
      {R"(\uD83D\n)", "\uFFFD\n"},
      // Escapes that cannot stand between quotes.
      {R"(a\)", "a\uFFFD"},
      {R"(\xa)", "\uFFFDa"},
      {R"(\u12)", "\uFFFD"},
  };
  for (const auto& [inside, text] : bodies) {
    EXPECT_EQ(undone(inside), text) << inside;
    const auto points = code_points_of_string_body(inside);
    EXPECT_TRUE(!points || code_points_begun(text) == points) << inside;
  }
}

TEST(CodePointsBegun, AddUpOverAnyCut) {
  const std::string_view text = "日本🙂 naïve";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(code_points_begun(text.substr(0, cut)) + code_points_begun(text.substr(cut)), 9U);
  }
}

TEST(Utf8Check, SaysTheSameHoweverATextIsCut) {
  const std::pair<std::string_view, bool> texts[] = {
      {"plain", true},
      {"é水🙂 Ж", true},
      {"a\x80", false},             // It begins nothing.
      {"a\xC3z", false},            // It is not continued.
      {"\xE6\xB0\"}", false},       //
      {"\xC0\xAF", false},          // It is too long for what it says.
      {"\xED\xA0\x80", false},      // It is a surrogate.
      {"\xF4\x90\x80\x80", false},  // It is beyond Unicode.
      {"\xF8\x88\x80\x80\x80", false},
      {"\xFF", false},
      {"ok\xFEok", false},
      {"ok\xF9pe", false},  // It is shorter than it says.
  };
  for (const auto& [text, valid] : texts) {
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
      Utf8Check check;
      check.feed(text.substr(0, cut));
      check.feed(text.substr(cut));
      EXPECT_EQ(check.feed("."), valid) << text << " " << cut;
    }
    Utf8Check bytes;
    for (const char& byte : text) bytes.feed({&byte, 1});
    EXPECT_EQ(bytes.feed("."), valid) << text;
  }
}

TEST(Utf8Check, WaitsForTheRestOfACodePoint) {
  Utf8Check check;
  EXPECT_TRUE(check.feed("\xF0\x9F"));
  EXPECT_TRUE(check.feed("\x99"));
  EXPECT_TRUE(check.feed("\x82"));
  EXPECT_TRUE(check.feed("\xF0"));
  EXPECT_FALSE(check.feed("....")) << "was not continued";
  EXPECT_FALSE(check.feed("fine")) << "what was broken stays so";
}

}  // namespace
}  // namespace weir::metrics::wire

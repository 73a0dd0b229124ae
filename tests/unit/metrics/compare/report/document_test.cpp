#include "metrics/compare/report/document.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "metrics/utf8.hpp"

namespace weir::metrics::compare::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Returns how many letters the longest line has.
std::size_t widest(std::string_view text) {
  std::size_t most = 0;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1) {
    const auto line = text.substr(begin, end - begin);
    most = std::max(most, static_cast<std::size_t>(std::ranges::count_if(line, &begins_code_point)));
  }
  return most;
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

Document sample() {
  Document document;
  document.heading("Verdicts");
  document.paragraph("It is so.");
  document.table({{"metric", "verdict"}, {{"ttft", "worse"}, {"ключ", "equivalent"}}});
  document.item("one");
  document.item("two");
  return document;
}

TEST(Document, IsTextForATerminal) {
  EXPECT_EQ(sample().written(Style::plain),
            "Verdicts\n"
            "--------\n"
            "\n"
            "It is so.\n"
            "\n"
            "metric     verdict\n"
            "ttft         worse\n"
            "ключ    equivalent\n"
            "\n"
            "- one\n"
            "- two\n");
}

TEST(Document, IsJson) {
  auto document = sample();
  document.heading("Charts", "load_points");
  EXPECT_EQ(document.json(),
            R"([{"heading":"Verdicts","about":""},{"paragraph":"It is so."},)"
            R"({"table":{"header":["metric","verdict"],"rows":[["ttft","worse"],["ключ","equivalent"]]}},)"
            R"({"item":"one"},{"item":"two"},{"heading":"Charts","about":"load_points"}])");
  EXPECT_EQ(Document().json(), "[]");
}

TEST(Document, IsMarkdown) {
  EXPECT_EQ(sample().written(Style::markdown),
            "## Verdicts\n"
            "\n"
            "It is so.\n"
            "\n"
            "| metric | verdict |\n"
            "|---|---:|\n"
            "| ttft | worse |\n"
            "| ключ | equivalent |\n"
            "\n"
            "- one\n"
            "- two\n");
}

TEST(Document, HasColoursOnlyWhereTheyAreAskedFor) {
  EXPECT_THAT(sample().written(Style::plain), Not(HasSubstr("\x1b")));
  EXPECT_THAT(sample().written(Style::markdown), Not(HasSubstr("\x1b")));
  EXPECT_THAT(sample().written(Style::colour), HasSubstr("\x1b[31mworse\x1b[0m"));
  // Colours take no room.
  EXPECT_THAT(sample().written(Style::colour), HasSubstr("ttft         \x1b[31mworse"));
}

TEST(Document, ShowsNamesThatComeFromLogsWithoutTheirTricks) {
  Document document;
  document.table({{"a|b"}, {{"\x1b[2J*x*"}}});
  EXPECT_THAT(document.written(Style::plain), Not(HasSubstr("\x1b")));
  EXPECT_THAT(document.written(Style::markdown), HasSubstr("a\\|b"));
  EXPECT_THAT(document.written(Style::markdown), HasSubstr("\\*x\\*"));
}

TEST(Document, BreaksLongLines) {
  Document document;
  std::string text;
  for (int i = 0; i < 60; ++i) text += text.empty() ? "word" : " word";
  document.item(text);
  const auto plain = document.written(Style::plain);
  EXPECT_THAT(plain, HasSubstr("word\n  word"));
  EXPECT_LE(widest(plain), widest_line);
}

/// Returns a text of letters of one to three bytes, with some blanks.
std::string any_text(std::mt19937& random, std::size_t longest) {
  static constexpr std::array<std::string_view, 6> letters{"a", "b", "ж", "€", "-", " "};
  std::string text;
  for (std::size_t i = random() % (longest + 1); i > 0; --i) text += letters[random() % letters.size()];
  return text;
}

TEST(Document, NoLineIsTooLongAndNothingIsLost) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    Document document;
    std::string said;
    const auto text = [&](std::size_t longest) { return any_text(random, longest); };
    for (int part = 0; part < 4; ++part) {
      const auto one = text(400);
      said += one;
      part % 2 == 0 ? document.paragraph(one) : document.heading(one);
      document.item(text(300));
    }
    const std::size_t columns = 1 + random() % 40;
    Table table;
    for (std::size_t i = 0; i < columns; ++i) table.header.push_back(text(i % 5 == 0 ? 200 : 9));
    for (int row = 0; row < 3; ++row) {
      table.rows.emplace_back();
      for (std::size_t i = 0; i < columns; ++i) table.rows.back().push_back(text(i % 7 == 0 ? 300 : 9));
    }
    document.table(table);
    for (const auto& plain : {document.written(Style::plain), document.written(Style::plain, Detail::brief)}) {
      ASSERT_LE(widest(plain), widest_line) << plain;
      // A cell that stands in one column is read downwards, so letters are counted.
      for (const std::string_view letter : {"ж", "€"}) ASSERT_GE(count(plain, letter), count(said, letter)) << plain;
    }
  }
}

TEST(Document, CellsBreakBetweenWordsAndElseWithin) {
  Document document;
  document.table({{"side", "what"}, {{std::string(70, 'n'), std::string(60, 'x') + " y"}}});
  EXPECT_EQ(document.written(Style::plain), std::string("side") + std::string(91, ' ') + " what\n" +  //
                                                std::string(49, 'n') + "  " + std::string(49, 'x') + "\n" +
                                                std::string(21, 'n') + std::string(66, ' ') + std::string(11, 'x') +
                                                " y\n");
}

TEST(Document, ManyColumnsAreSeveralTables) {
  Document document;
  Table table{{"figure"}, {{"TTFT"}, {"TPOT"}}};
  for (int i = 0; i < 12; ++i) {
    table.header.push_back("side" + std::to_string(i));
    for (auto& row : table.rows) row.push_back(std::to_string(i));
  }
  document.table(table);
  const auto plain = document.written(Style::plain);
  EXPECT_EQ(count(plain, "figure"), 2U);
  EXPECT_EQ(count(plain, "TPOT"), 2U);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(count(plain, "side" + std::to_string(i) + (i == 1 ? " " : "")), 1U);
}

TEST(Document, WhatIsFoldedIsNotInBrief) {
  Document document;
  document.paragraph("first");
  document.folded("Why");
  document.item("because");
  document.table({{"a"}, {{"b"}}});
  document.heading("Notes");
  document.item("mind this");
  EXPECT_EQ(document.written(Style::plain, Detail::brief), "first\n\nNotes\n-----\n\n- mind this\n");
  EXPECT_EQ(document.written(Style::markdown, Detail::brief), "first\n\n## Notes\n\n- mind this\n");
  EXPECT_THAT(document.written(Style::plain), HasSubstr("Why\n---\n\n- because\n"));
  EXPECT_THAT(document.json(), HasSubstr(R"({"heading":"Why","about":"","folded":true})"));
  EXPECT_THAT(document.folded_headings(), ::testing::ElementsAre("Why"));
}

}  // namespace
}  // namespace weir::metrics::compare::report

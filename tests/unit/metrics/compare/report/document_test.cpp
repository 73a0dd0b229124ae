#include "metrics/compare/report/document.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::metrics::compare::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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
  EXPECT_EQ(sample().plain(),
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
  EXPECT_EQ(sample().markdown(),
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
  EXPECT_THAT(sample().plain(), Not(HasSubstr("\x1b")));
  EXPECT_THAT(sample().markdown(), Not(HasSubstr("\x1b")));
  EXPECT_THAT(sample().coloured(), HasSubstr("\x1b[31mworse\x1b[0m"));
  // Colours take no room.
  EXPECT_THAT(sample().coloured(), HasSubstr("ttft         \x1b[31mworse"));
}

TEST(Document, ShowsNamesThatComeFromLogsWithoutTheirTricks) {
  Document document;
  document.table({{"a|b"}, {{"\x1b[2J*x*"}}});
  EXPECT_THAT(document.plain(), Not(HasSubstr("\x1b")));
  EXPECT_THAT(document.markdown(), HasSubstr("a\\|b"));
  EXPECT_THAT(document.markdown(), HasSubstr("\\*x\\*"));
}

TEST(Document, BreaksLongLines) {
  Document document;
  std::string text;
  for (int i = 0; i < 60; ++i) text += text.empty() ? "word" : " word";
  document.item(text);
  const auto plain = document.plain();
  EXPECT_THAT(plain, HasSubstr("word\n  word"));
  for (std::size_t begin = 0, end = 0; (end = plain.find('\n', begin)) != std::string::npos; begin = end + 1)
    EXPECT_LE(end - begin, 110U);
}

}  // namespace
}  // namespace weir::metrics::compare::report

// What steers a terminal is shown by no command: as `?`, or as an escape.
#include "config/controls.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/values.hpp"
#include "load_text.hpp"

namespace weir::config {
namespace {

TEST(Controls, AreThoseOfAsciiAndOfUnicodeTheMarksOfDirectionsAndTheSeparators) {
  for (const std::string one : {"\x01", "\x1b", "\r", "\x7f", "\u0080", "\u0085", "\u009b", "\u009f", "\u2028",
                                "\u2029", "\u202a", "\u202e", "\u2066", "\u2069"}) {
    EXPECT_EQ(control_size(one), one.size());
    EXPECT_EQ(printable("a" + one + "b"), "a?b");
    EXPECT_THAT(one_line("a" + one + "b"), testing::MatchesRegex(R"(a\\u[0-9A-F]{4}b)"));
  }
  for (const std::string one : {"", " ", "~", "\u00a0", "\u2027", "\u202f", "\u2065", "\u206a", "\U0001f600"}) {
    EXPECT_EQ(control_size(one), 0u);
    EXPECT_EQ(printable(one), one);
    EXPECT_EQ(one_line(one), one);
  }
  EXPECT_EQ(one_line("\u009b\u202e"), R"(\u009B\u202E)");
}

TEST(Controls, AreBytesThatAreNoUtf8Too) {
  EXPECT_EQ(printable("a\x9b"
                      "b\xc3"),
            "a?b?")
      << "a terminal of eight bits obeys it";
  EXPECT_EQ(printable("\xe2\x80"), "??");
  EXPECT_EQ(printable("\xff\xc1\xbf"), "???");
}

TEST(Controls, LeaveTabsAndLineFeedsWhereTheseAreKept) {
  EXPECT_EQ(printable("a\tb\nc\r"), "a\tb?c?");
  EXPECT_EQ(printable("a\tb\nc\r", LineFeeds::kept), "a\tb\nc?");
}

TEST(Controls, AreLeftOutOfColumnsWithAllThatIsNotAscii) {
  EXPECT_EQ(printable_ascii("qwen 2.5~"), "qwen 2.5~");
  EXPECT_EQ(printable_ascii("a\x1b[2Jb\r\n\x7f\u009b"), "a?[2Jb????");
  EXPECT_EQ(printable_ascii("caf\u00e9"), "caf?") << "one column a character";
  EXPECT_EQ(printable_ascii(std::string(1000, 'x'), 128).size(), 128u);
  EXPECT_EQ(printable_ascii(""), "");
}

}  // namespace
}  // namespace weir::config

#include "metrics/utf8.hpp"

#include <gtest/gtest.h>

#include <ostream>

namespace weir::metrics {

bool operator==(const CodePointBytes& a, const CodePointBytes& b) { return a.size == b.size && a.valid == b.valid; }
std::ostream& operator<<(std::ostream& out, const CodePointBytes& v) { return out << v.size << ' ' << v.valid; }

namespace {

TEST(Utf8, TakesTheLongestPartThatCouldBeginACodePoint) {
  struct {
    std::string_view text;
    CodePointBytes first;
  } const cases[] = {
      {"a\x80", {1, true}},
      {"\xC3\xA4z", {2, true}},
      {"\xE6\xB0\xB4", {3, true}},
      {"\xF0\x9F\x98\x80", {4, true}},
      {"\xF4\x8F\xBF\xBF", {4, true}},
      {"\x80", {1, false}},              // It continues nothing.
      {"\xC1\xBF", {1, false}},          // It is longer than need be,
      {"\xE0\x9F\xBF", {1, false}},      // the same in three bytes,
      {"\xF0\x8F\xBF\xBF", {1, false}},  // and in four.
      {"\xED\xA0\x80", {1, false}},      // It is a surrogate.
      {"\xF4\x90\x80\x80", {1, false}},  // It is above U+10FFFF.
      {"\xF5\x80\x80\x80", {1, false}},  //
      {"\xC3", {1, false}},              // It is cut.
      {"\xE6\xB0", {2, false}},          //
      {"\xF0\x9F\x98", {3, false}},      //
      {"\xF0\x9F\x98z", {3, false}},     // It is broken off.
  };
  for (const auto& one : cases) EXPECT_EQ(first_code_point(one.text), one.first) << one.text;
}

TEST(Utf8, FindsACutAtTheEnd) {
  const std::string_view text = "a\xC3\xA4\xE6\xB0\xB4\xF0\x9F\x98\x80";
  constexpr std::size_t cut[] = {0, 0, 1, 0, 1, 2, 0, 1, 2, 3, 0};
  for (std::size_t size = 0; size <= text.size(); ++size)
    EXPECT_EQ(cut_at_end(text.substr(0, size)), cut[size]) << size;
}

}  // namespace
}  // namespace weir::metrics

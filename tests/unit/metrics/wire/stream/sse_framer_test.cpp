#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "metrics/wire/stream/sse.hpp"

namespace weir::metrics::wire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::size_t limit = 1000;

/// Keeps the events of a stream that comes in pieces, each in a buffer that is gone when the next one comes.
struct Framed {
  std::vector<std::string> data;  // It has "<too long>" for one beyond the limit.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
  std::string pending = "-";
  std::uint64_t rest = 0;

  bool operator==(const Framed&) const = default;
};

Framed frame(const std::vector<std::string_view>& pieces, Framing framing = Framing::events) {
  Framed framed;
  SseFramer framer(limit, framing);
  for (const std::string_view piece : pieces) {
    auto buffer = std::make_unique<char[]>(piece.size() + 64);
    std::memset(buffer.get(), '\n', piece.size() + 64);
    std::memcpy(buffer.get(), piece.data(), piece.size());
    framer.feed({buffer.get(), piece.size()});
    SseEvent event;
    while (framer.next(event)) {
      framed.data.emplace_back(event.too_long ? "<too long>" : event.data);
      framed.places.emplace_back(event.begin, event.end);
    }
  }
  if (const auto data = framer.pending()) framed.pending = *data;
  framed.rest = framer.position() - framer.block_begin();
  return framed;
}

struct Case {
  const char* what;
  std::string stream;
  std::vector<std::string> data;
  std::string pending = "-";
  Framing framing = Framing::events;

  friend void PrintTo(const Case& one, std::ostream* out) { *out << one.what; }
};

const std::string long_line(1200, 'x');

const Case cases[] = {
    {"one event", "data: a\n\n", {"a"}},
    {"no space after the colon", "data:a\n\n", {"a"}},
    {"only one space is taken off", "data:  a\n\n", {" a"}},
    {"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", {"a", "b"}},
    {"CR", "data: a\r\rdata: b\r\r", {"a", "b"}},
    {"mixed line ends", "data: a\r\n\ndata: b\n\r\ndata: c\r\r\n", {"a", "b", "c"}},
    {"several data lines", "data: a\ndata: b\r\ndata:\rdata: c\n\n", {"a\nb\n\nc"}},
    {"other fields around", "event: x\nid: 1\ndata: a\nretry: 5\n\n", {"a"}},
    {"comments", ": ping\n\n:\n\ndata: a\n: c\n\n", {"a"}},
    {"a line without colon is a field without value", "data\n\n", {""}},
    {"two of them", "data\ndata\n\n", {"\n"}},
    {"no data, no event", "event: x\n\nid: 3\n\n\n\n", {}},
    {"names that only begin like data", "database: x\n\ndata : y\n\nData: z\n\n data: q\n\n", {}},
    {"colons in the value", "data: a:b: c\n\n", {"a:b: c"}},
    {"byte order mark",
     "\xEF\xBB\xBF"
     "data: a\n\n",
     {"a"}},
    {"byte order mark before several lines",
     "\xEF\xBB\xBF"
     "data: a\ndata: b\n\n",
     {"a\nb"}},
    {"byte order mark on a line of its own", "\xEF\xBB\xBF\n\ndata: a\n\n", {"a"}},
    {"a second byte order mark is part of the name",
     "\xEF\xBB\xBF\xEF\xBB\xBF"
     "data: a\n\n",
     {}},
    {"a later byte order mark too",
     "data: a\n\n\xEF\xBB\xBF"
     "data: b\n\n",
     {"a"}},
    {"unfinished", "data: a\n\ndata: b\n", {"a"}, "b"},
    {"unfinished line", "data: a\n\ndata: b", {"a"}, "b"},
    {"unfinished, several lines", "data: b\ndata: c", {}, "b\nc"},
    {"unfinished comment", "data: a\n\n: c", {"a"}},
    {"unfinished name", "dat", {}},
    {"empty stream", "", {}},
    {"an event beyond the limit", "data: a\n\ndata: " + long_line + "\n\ndata: b\n\n", {"a", "<too long>", "b"}},
    {"one of many lines",
     "data: " + long_line.substr(0, 600) + "\ndata: " + long_line.substr(0, 600) + "\n\ndata: b\n\n",
     {"<too long>", "b"}},
    {"one that CRLF ends", "data: " + long_line + "\r\n\r\ndata: b\r\n\r\n", {"<too long>", "b"}},
    {"one that does not end", "data: a\n\ndata: " + long_line, {"a"}},
    {"one as long as the limit", "data: " + long_line.substr(0, limit - 7) + "\n\n", {long_line.substr(0, limit - 7)}},
    {"one a byte longer", "data: " + long_line.substr(0, limit - 6) + "\n\n", {"<too long>"}},
    {"lines", "{1}\n{2}\r\n{3}\n", {"{1}", "{2}", "{3}"}, "-", Framing::lines},
    {"empty lines between them", "\n{1}\n\n\r\n{2}\n", {"{1}", "{2}"}, "-", Framing::lines},
    {"lines that look like fields", "data: a\n: b\n", {"data: a", ": b"}, "-", Framing::lines},
    {"byte order mark before a line", "\xEF\xBB\xBF{1}\n", {"{1}"}, "-", Framing::lines},
    {"unfinished line after others", "{1}\n{2}", {"{1}"}, "{2}", Framing::lines},
    {"no line", "", {}, "-", Framing::lines},
    {"a line beyond the limit", "{1}\n" + long_line + "\n{2}\n", {"{1}", "<too long>", "{2}"}, "-", Framing::lines},
    {"a line that CRLF ends beyond the limit", long_line + "\r\n{2}\r\n", {"<too long>", "{2}"}, "-", Framing::lines},
    {"a line that does not end", "{1}\n" + long_line, {"{1}"}, "-", Framing::lines},
    {"a line as long as the limit",
     long_line.substr(0, limit) + "\n",
     {long_line.substr(0, limit)},
     "-",
     Framing::lines},
    {"a line a byte longer", long_line.substr(0, limit + 1) + "\n", {"<too long>"}, "-", Framing::lines},
    {"NUL and high bytes", std::string("data: \0\xFF\n\n", 10), {std::string("\0\xFF", 2)}},
};

class SseFramerCases : public testing::TestWithParam<Case> {};

TEST_P(SseFramerCases, GiveTheirEvents) {
  const Framed framed = frame({GetParam().stream}, GetParam().framing);
  EXPECT_THAT(framed.data, testing::ElementsAreArray(GetParam().data));
  EXPECT_EQ(framed.pending, GetParam().pending);
}

TEST_P(SseFramerCases, AreTheSameHoweverTheyAreSplit) {
  const std::string_view stream = GetParam().stream;
  const Framing framing = GetParam().framing;
  const auto data = [](const Framed& framed) { return std::pair(framed.data, framed.pending); };
  const auto whole = data(frame({stream}, framing));
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    ASSERT_EQ(data(frame({stream.substr(0, cut), stream.substr(cut)}, framing)), whole) << "cut at " << cut;
  }
  std::vector<std::string_view> bytes;
  for (std::size_t i = 0; i < stream.size(); ++i) bytes.push_back(stream.substr(i, 1));
  EXPECT_EQ(data(frame(bytes, framing)), whole) << "byte by byte";
}

INSTANTIATE_TEST_SUITE_P(Streams, SseFramerCases, testing::ValuesIn(cases));

TEST(SseFramer, SaysWhereEventsBeginAndEnd) {
  const Framed framed = frame({"data: a\n\n: c\n\nid: 1\ndata: b\r\n\r\nda"});
  EXPECT_THAT(framed.places, ElementsAre(std::pair(0U, 9U), std::pair(14U, 31U)));
  EXPECT_EQ(framed.rest, 2U);
}

TEST(SseFramer, SaysWhereLinesBeginAndEnd) {
  const Framed framed = frame({"{1}\n\r\n{2}\r\n{"}, Framing::lines);
  EXPECT_THAT(framed.places, ElementsAre(std::pair(0U, 4U), std::pair(6U, 11U)));
  EXPECT_EQ(framed.rest, 1U);
}

TEST(SseFramer, GivesTheLineFeedOfASplitLineEndToTheEventItEnds) {
  SseFramer framer(limit);
  SseEvent event;
  const std::string first = "data: a\r\n\r" + std::string(64, ' ');
  framer.feed({first.data(), 10});
  ASSERT_TRUE(framer.next(event));
  EXPECT_EQ(event.data, "a");
  EXPECT_EQ(event.end, 10U);
  ASSERT_FALSE(framer.next(event));

  const std::string second = "\ndata: b\n\n" + std::string(64, ' ');
  framer.feed({second.data(), 10});
  EXPECT_TRUE(framer.swallowed_lf());
  ASSERT_TRUE(framer.next(event));
  EXPECT_EQ(event.data, "b");
  EXPECT_EQ(event.begin, 11U);
}

TEST(SseFramer, FindsEventsWhereTheyLie) {
  SseFramer framer(limit);
  SseEvent event;
  const std::string read = "data: a\n\n" + std::string(64, ' ');
  framer.feed({read.data(), 9});
  ASSERT_TRUE(framer.next(event));
  EXPECT_EQ(event.data.data(), read.data() + 6);
}

TEST(SseFramer, KeepsNothingOfAnEventBeyondTheLimit) {
  SseFramer framer(limit);
  SseEvent event;
  const std::string read = "data: " + long_line + std::string(64, ' ');
  framer.feed({read.data(), long_line.size() + 6});
  EXPECT_FALSE(framer.next(event));
  EXPECT_THAT(framer.unfinished(), IsEmpty());
  EXPECT_FALSE(framer.pending());
}

}  // namespace
}  // namespace weir::metrics::wire

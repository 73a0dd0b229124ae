// Tables hold the rules of framing. The property that matters is that cuts between reads change nothing.
#include "proxy/http/body_decoder.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace weir::proxy::http {
namespace {

using namespace std::string_literals;

/// Everything that a decoder says of an input.
struct Told {
  std::string payload;
  std::size_t consumed = 0;
  bool finished = false, failed = false;

  bool operator==(const Told&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Told& told) {
  return out << '"' << told.payload << "\" " << told.consumed << (told.finished ? " finished" : "")
             << (told.failed ? " failed" : "");
}

/// Feeds pieces of the given sizes, the last one again and again, until the decoder wants no more.
Told decode(BodyDecoder decoder, std::string_view input, const std::vector<std::size_t>& sizes) {
  Told told;
  std::size_t next = 0;
  while (!input.empty() && !decoder.finished() && !decoder.failed()) {
    std::string piece(input.substr(0, sizes[std::min(next++, sizes.size() - 1)]));
    const auto decoded = decoder.decode(piece);
    EXPECT_LE(decoded.consumed, piece.size());
    EXPECT_TRUE(decoded.consumed == piece.size() || decoder.finished() || decoder.failed());
    told.payload.append(decoded.payload.data(), decoded.payload.size());
    told.consumed += decoded.consumed;
    input.remove_prefix(decoded.consumed);
  }
  told.finished = decoder.finished();
  told.failed = decoder.failed();
  return told;
}

Told decode_chunked(std::string_view input) { return decode(BodyDecoder(Framing::chunked, 0), input, {input.size()}); }

TEST(BodyDecoder, TakesChunksTogether) {
  static_assert(BodyDecoder::max_extension == 256);
  const struct {
    const char* what;
    std::string input, payload;
  } rows[]{
      {"no body", "0\r\n\r\n", ""},
      {"one chunk", "3\r\nabc\r\n0\r\n\r\n", "abc"},
      {"two chunks", "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", "abcde"},
      {"either case of hexadecimal", "a\r\n0123456789\r\nB\r\n0123456789x\r\n0\r\n\r\n", "01234567890123456789x"},
      {"leading zeros", "0003\r\nabc\r\n000\r\n\r\n", "abc"},
      {"extensions", "3;a=b;c=\"d;e\"\r\nabc\r\n0;last\r\n\r\n", "abc"},
      {"blanks before and in extensions", "3; a = b ;\tc\r\nabc\r\n0\r\n\r\n", "abc"},
      {"blanks around the equals sign", "3;a\t =\t b;c =\"d\" ;e\r\nabc\r\n0\r\n\r\n", "abc"},
      {"bytes above ASCII in quotes", "3;a=\"\xc3\xa4\\\xff\t\"\r\nabc\r\n0\r\n\r\n", "abc"},
      {"an empty quoted value", "3;a=\"\"\r\nabc\r\n0;b=\"\"\r\n\r\n", "abc"},
      {"every token character in an extension", "3;!#$%&'*+-.^_`|~09azAZ=!#$%&'*+-.^_`|~\r\nabc\r\n0\r\n\r\n", "abc"},
      {"quoted values", "3;a=\"\\\"; ;\";b\r\nabc\r\n0\r\n\r\n", "abc"},
      {"the longest extension", "3;" + std::string(BodyDecoder::max_extension, 'x') + "\r\nabc\r\n0\r\n\r\n", "abc"},
      {"trailers", "3\r\nabc\r\n0\r\nExpires: never\r\nX:\r\n\r\n", "abc"},
      {"every character that a trailer may have", "0\r\n!#$%&'*+-.^_`|~09azAZ:\t :\"(\xc3\xff~ \r\n\r\n", ""},
      {"framing as payload", "7\r\n0\r\n\r\n\r\n\r\n0\r\n\r\n", "0\r\n\r\n\r\n"},
      {"NUL and high bytes", "3\r\n\0\xff\n\r\n0\r\n\r\n"s, "\0\xff\n"s},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(decode_chunked(row.input), (Told{row.payload, row.input.size(), true, false})) << row.what;
    EXPECT_EQ(decode_chunked(row.input + "GET /"), (Told{row.payload, row.input.size(), true, false}))
        << row.what << ": what follows is not the body's";
    for (std::size_t size = 0; size < row.input.size(); ++size) {
      const auto told = decode_chunked(std::string_view(row.input).substr(0, size));
      EXPECT_FALSE(told.finished || told.failed) << row.what << " is not whole after " << size;
      EXPECT_EQ(told.consumed, size) << row.what;
    }
  }
}

TEST(BodyDecoder, RefusesBrokenChunksAtTheByteThatBreaksThem) {
  const struct {
    const char* what;
    std::string good, rest;  ///< `good` can be the beginning of a body; the first byte of `rest` cannot go on with it.
  } rows[]{
      {"no size", "", "\r\n"},
      {"no size, an extension", "", ";a\r\n"},
      {"a plus", "", "+3\r\nabc\r\n"},
      {"a minus", "", "-3\r\nabc\r\n"},
      {"0x", "0", "x3\r\nabc\r\n"},
      {"a space before", "", " 3\r\nabc\r\n"},
      {"a space behind", "3", " \r\nabc\r\n"},
      {"a tab behind", "3", "\t\r\nabc\r\n"},
      {"a space before the extension", "3", " ;a\r\nabc\r\n"},
      {"no hexadecimal", "", "g\r\n"},
      {"an underscore", "1", "_0\r\n"},
      {"bare LF behind the size", "3", "\nabc\r\n"},
      {"CR and no LF behind the size", "3\r", "abc\r\n"},
      {"two CRs", "3\r", "\r\nabc"},
      {"an extension without a name", "3;", "\r\nabc\r\n"},
      {"blanks for a name", "3; \t", "\r\nabc\r\n"},
      {"a second extension without a name", "3;a;", "\r\nabc\r\n"},
      {"two semicolons", "3;", ";a\r\nabc\r\n"},
      {"a value without a name", "3;", "=b\r\nabc\r\n"},
      {"a name that is no token", "3;", "\"a\"\r\nabc\r\n"},
      {"the end within a quoted value", "3;a=\"b", "\r\nabc\r\n"},
      {"the end behind a backslash", "3;a=\"b\\", "\r\n\"\r\nabc\r\n"},
      {"a name that goes on with no token", "3;a", "@\r\nabc\r\n"},
      {"two names", "3;a ", "b\r\nabc\r\n"},
      {"blanks behind a name", "3;a \t", "\r\nabc\r\n"},
      {"no value", "3;a=", "\r\nabc\r\n"},
      {"blanks for a value", "3;a= \t", "\r\nabc\r\n"},
      {"no value before a second extension", "3;a=", ";b\r\nabc\r\n"},
      {"a value that is no token", "3;a=", "@\r\nabc\r\n"},
      {"a value that goes on with no token", "3;a=b", "@\r\nabc\r\n"},
      {"two equals signs", "3;a=b", "=c\r\nabc\r\n"},
      {"two values", "3;a=b ", "c\r\nabc\r\n"},
      {"blanks behind a value", "3;a=b \t", "\r\nabc\r\n"},
      {"a quote within a value", "3;a=b", "\"c\"\r\nabc\r\n"},
      {"something behind a quoted value", "3;a=\"b\"", "c\r\nabc\r\n"},
      {"blanks behind a quoted value", "3;a=\"b\" ", "\r\nabc\r\n"},
      {"DEL in a quoted value", "3;a=\"", "\x7f\"\r\nabc\r\n"},
      {"a control byte behind a backslash", "3;a=\"\\", "\x01\"\r\nabc\r\n"},
      {"a control byte in an extension", "3;a=", "\x01\r\nabc\r\n"},
      {"bare LF in an extension", "3;a", "\nabc\r\n"},
      {"bare LF in a quoted value", "3;a=\"", "\n\"\r\nabc\r\n"},
      {"bare CR in an extension", "3;a\r", "b\r\nabc\r\n"},
      {"NUL in an extension", "3;a", "\0\r\n"s},
      {"an extension too long", "3;" + std::string(BodyDecoder::max_extension, 'x'), "x\r\nabc\r\n"},
      {"no CRLF behind a chunk", "3\r\nabc", "0\r\n\r\n"},
      {"bare LF behind a chunk", "3\r\nabc", "\n0\r\n\r\n"},
      {"CR and no LF behind a chunk", "3\r\nabc\r", "0\r\n\r\n"},
      {"a chunk longer than its size", "3\r\nabc", "d\r\n0\r\n\r\n"},
      {"a blank line between chunks", "3\r\nabc\r\n", "\r\n0\r\n\r\n"},
      {"2^48 + 1", "100000000000", "1\r\n"},
      {"the size of all memory", std::string(12, 'f'), "ffff\r\n"},
      {"a size that wraps round to 3", "1000000000000", "0003\r\n"},
      {"zeros without end", std::string(BodyDecoder::max_size_digits, '0'), std::string(1000, '0')},
      {"bare LF for the end", "0\r\n", "\n"},
      {"CR and no LF for the end", "0\r\n\r", "x"},
      {"bare LF behind a trailer", "0\r\nX: y", "\n\r\n"},
      {"bare CR in a trailer", "0\r\nX: y\r", "z\r\n\r\n"},
      {"a trailer without a name", "0\r\n", ": y\r\n\r\n"},
      {"a trailer without a colon", "0\r\nX", "\r\n\r\n"},
      {"a folded trailer", "0\r\nX: y\r\n", " z\r\n\r\n"},
      {"a blank before the colon of a trailer", "0\r\nX", " : y\r\n\r\n"},
      {"a trailer's name with bytes above ASCII", "0\r\nX", "\xe9: y\r\n\r\n"},
      {"a control byte in a trailer", "0\r\nX: ", "\x01\r\n\r\n"},
      {"DEL in a trailer", "0\r\nX: y", "\x7f\r\n\r\n"},
      {"trailers too long together", "0\r\nX:" + std::string(BodyDecoder::max_trailers - 3, 'x') + "\r\nY",
       ":\r\n\r\n"},
      {"NUL in a trailer", "0\r\nX: ", "\0\r\n\r\n"s},
      {"a trailer's value too long", "0\r\nX:" + std::string(BodyDecoder::max_trailers - 2, 'x'), "x\r\n\r\n"},
      {"a trailer's name too long", "0\r\n" + std::string(BodyDecoder::max_trailers, 'x'), "x\r\n\r\n"},
  };
  for (const auto& row : rows) {
    const auto before = decode_chunked(row.good);
    EXPECT_FALSE(before.finished || before.failed) << row.what;
    const auto told = decode_chunked(row.good + row.rest);
    EXPECT_TRUE(told.failed) << row.what;
    EXPECT_FALSE(told.finished) << row.what;
    EXPECT_EQ(told.consumed, row.good.size() + 1) << row.what;
    EXPECT_EQ(told.payload, before.payload) << row.what << ": what came before the break is payload still";
  }
}

TEST(BodyDecoder, LimitsAllTrailersTogether) {
  const auto most = "X:" + std::string(BodyDecoder::max_trailers - 2, 'x') + "\r\n\r\n";
  for (const std::string last : {"0", "0;extension", "00000000"})
    EXPECT_TRUE(decode_chunked(last + "\r\n" + most).finished) << "the last chunk's line is no trailer: " << last;
  std::string trailers = "0\r\n";
  for (std::size_t i = 0; i < 1 + BodyDecoder::max_trailers / 16; ++i) trailers += "x-trailer: 56789\r\n";
  EXPECT_TRUE(decode_chunked(trailers).failed);
}

TEST(BodyDecoder, TakesAsMuchAsContentLengthSays) {
  const BodyDecoder five(Framing::length, 5);
  EXPECT_EQ(decode(five, "abcde", {9}), (Told{"abcde", 5, true, false}));
  EXPECT_EQ(decode(five, "abcdefg", {9}), (Told{"abcde", 5, true, false}));
  EXPECT_EQ(decode(five, "abcd", {9}), (Told{"abcd", 4, false, false}));
  EXPECT_EQ(decode(BodyDecoder(Framing::length, UINT64_MAX), "abc", {1}), (Told{"abc", 3, false, false}));
  EXPECT_TRUE(BodyDecoder(Framing::length, 0).finished());
  EXPECT_FALSE(five.ends_with_close());
}

TEST(BodyDecoder, HasNothingToTakeWhereThereIsNoBody) {
  std::string next = "HTTP/1.1 ";
  for (BodyDecoder decoder : {BodyDecoder(), BodyDecoder(Framing::none, 0), BodyDecoder(Framing::length, 0)}) {
    EXPECT_TRUE(decoder.finished());
    const auto decoded = decoder.decode(next);
    EXPECT_TRUE(decoded.payload.empty());
    EXPECT_EQ(decoded.consumed, 0u);
  }
}

TEST(BodyDecoder, TakesEverythingUntilTheCloseAndNeverSaysThatItIsWhole) {
  const BodyDecoder decoder(Framing::until_close, 0);
  EXPECT_TRUE(decoder.ends_with_close());
  EXPECT_EQ(decode(decoder, "3\r\nabc\r\n0\r\n\r\n", {4}), (Told{"3\r\nabc\r\n0\r\n\r\n", 13, false, false}));
}

TEST(BodyDecoder, LeavesThePayloadInsideThePieceSoThatWhatIsReadableBehindItStaysSo) {
  std::string piece = "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
  BodyDecoder decoder(Framing::chunked, 0);
  const auto payload = decoder.decode(piece).payload;
  EXPECT_GE(payload.data(), piece.data());
  EXPECT_LE(payload.data() + payload.size(), piece.data() + piece.size());
}

/// Returns bodies whole and broken, of every framing, with something behind them.
std::vector<std::pair<BodyDecoder, std::string>> bodies_of_all_kinds() {
  std::mt19937 random(7);
  std::vector<std::pair<BodyDecoder, std::string>> bodies;
  for (int i = 0; i < 60; ++i) {
    std::string body;
    for (int chunks = static_cast<int>(random() % 6); chunks > 0; --chunks) {
      char size[20];
      const auto bytes = static_cast<unsigned>(1 + random() % 40);
      std::snprintf(size, sizeof size, random() % 2 == 0 ? "%x" : "%04X", bytes);
      body.append(size).append(random() % 3 == 0 ? ";a=\"b\"" : "").append("\r\n");
      for (unsigned n = 0; n < bytes; ++n) body += static_cast<char>("abc\r\n0;\0"[random() % 8]);
      body += "\r\n";
    }
    body.append("0\r\n").append(random() % 2 == 0 ? "X: y\r\n" : "").append("\r\nHTTP/1.1 200 OK");
    if (i % 2 == 1) body[random() % body.size()] = static_cast<char>("\r\n ;0xg"[random() % 7]);
    bodies.emplace_back(BodyDecoder(Framing::chunked, 0), body);
    bodies.emplace_back(BodyDecoder(Framing::length, random() % body.size()), body);
  }
  bodies.emplace_back(BodyDecoder(Framing::until_close, 0), "any thing");
  return bodies;
}

TEST(BodyDecoder, SaysTheSameHoweverTheBytesAreSplit) {
  std::mt19937 random(11);
  for (const auto& [decoder, body] : bodies_of_all_kinds()) {
    const auto whole = decode(decoder, body, {body.size()});
    for (std::size_t size = 1; size <= 17; ++size) ASSERT_EQ(decode(decoder, body, {size}), whole) << size << body;
    for (std::size_t at = 1; at < body.size(); ++at) ASSERT_EQ(decode(decoder, body, {at, 1000}), whole) << at << body;
    for (int i = 0; i < 20; ++i) {
      std::vector<std::size_t> sizes(body.size());
      for (auto& size : sizes) size = 1 + random() % 12;
      ASSERT_EQ(decode(decoder, body, sizes), whole) << body;
    }
  }
}

}  // namespace
}  // namespace weir::proxy::http

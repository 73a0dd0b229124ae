// Answers that break HTTP/1.1, as one table: the client gets weir's 502, or a stream that is broken off;
// the connection dies, and the reason is counted. Every cut of the bytes gives the same.
#include <gtest/gtest.h>

#include "tests/unit/proxy/exchange/attempt_story.hpp"

namespace weir::proxy::exchange {
namespace {

using namespace std::string_literals;
using metrics::series::Malformed;
using metrics::series::malformed_names;

struct MalformedCase {
  const char* what;
  Malformed reason;
  std::string bytes;
  bool begun = false;  ///< The answer was under way when it broke.
};

std::string repeated(std::string_view one, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += one;
  return all;
}

std::string ok(const std::string& fields) { return "HTTP/1.1 200 OK\r\n" + fields + "\r\n"; }

const std::string hint = "HTTP/1.1 103 Early Hints\r\n\r\n";

std::vector<MalformedCase> malformed_answers() {
  const std::string body = "{\"a\":1}";
  return {
      {"another protocol", Malformed::head, "SSH-2.0-OpenSSH_9.2\r\n\r\n"},
      {"another version", Malformed::head, "HTTP/2.0 200 OK\r\n\r\n"},
      {"no status", Malformed::head, "HTTP/1.1 OK\r\n\r\n"},
      {"a folded field", Malformed::head, ok("X: a\r\n b\r\nContent-Length: 7\r\n") + body},
      {"a bare LF", Malformed::head, ok("X: a\nContent-Length: 7\r\n") + body},
      {"a bare CR", Malformed::head, ok("X: a\rb\r\nContent-Length: 7\r\n") + body},
      {"NUL", Malformed::head, ok("X: a\0b\r\nContent-Length: 7\r\n"s) + body},
      {"a space before the colon", Malformed::head, ok("Content-Length : 7\r\n") + body},
      {"Connection names a content field", Malformed::head,
       ok("Connection: content-type\r\nContent-Length: 7\r\n") + body},
      {"a line without end", Malformed::too_long, ok("X: " + std::string(70'000, 'x') + "\r\n")},
      {"101 fields", Malformed::too_long, ok(repeated("x: y\r\n", 101))},
      {"two lengths", Malformed::length, ok("Content-Length: 7\r\nContent-Length: 7\r\n") + body},
      {"a list of lengths", Malformed::length, ok("Content-Length: 7, 7\r\n") + body},
      {"a length that is none", Malformed::length, ok("Content-Length: seven\r\n") + body},
      {"length and encoding", Malformed::length,
       ok("Content-Length: 7\r\nTransfer-Encoding: chunked\r\n") + chunk(body) + last_chunk},
      {"an unknown coding", Malformed::coding, ok("Transfer-Encoding: gzip\r\n") + body},
      {"two codings", Malformed::coding, ok("Transfer-Encoding: gzip, chunked\r\n") + chunk(body) + last_chunk},
      {"chunked in HTTP/1.0", Malformed::coding, "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {"204 with a length", Malformed::no_body, "HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\n" + body},
      {"204 with chunks", Malformed::no_body,
       "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(body) + last_chunk},
      {"100 with a length", Malformed::no_body, "HTTP/1.1 100 Continue\r\nContent-Length: 7\r\n\r\n" + body},
      {"101", Malformed::interim, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"},
      {"101 interim answers", Malformed::interim, repeated(hint, 101)},
      {"interim answers of 64 KiB", Malformed::interim,
       repeated("HTTP/1.1 103 Early Hints\r\nX: " + std::string(9'000, 'x') + "\r\n\r\n", 8)},
      {"a size that is none", Malformed::chunks, sse_head() + chunk(token("a")) + "zz\r\n", true},
      {"a size with a sign", Malformed::chunks, sse_head() + chunk(token("a")) + "+5\r\n", true},
      {"an extension without a name", Malformed::chunks, sse_head() + chunk(token("a")) + "5;\r\n", true},
      {"no CRLF behind a chunk", Malformed::chunks, sse_head() + chunk(token("a")) + "5\r\nabcdeX", true},
      {"trailers without end", Malformed::chunks,
       sse_head() + chunk(token("a")) + "0\r\n" + repeated("x: y\r\n", 5'000), true},
  };
}

void expect_counted(const AttemptStory& attempt, Malformed reason, const char* what) {
  for (std::size_t i = 0; i < malformed_names.size(); ++i) {
    EXPECT_EQ(attempt.shard.malformed[i].value(), i == static_cast<std::size_t>(reason) ? 1u : 0u)
        << what << ": " << malformed_names[i];
  }
}

void expect_refused(const AttemptStory& attempt, const MalformedCase& row) {
  ASSERT_TRUE(attempt.machine->done()) << row.what;
  EXPECT_EQ(attempt.told(), row.begun ? "relayed, upstream_error, cut" : "none, upstream_error, retry reset")
      << row.what;
  expect_counted(attempt, row.reason, row.what);
  if (!row.begun) {
    EXPECT_EQ(attempt.client, "") << row.what << ": weir's own 502 can follow";
    return;
  }
  EXPECT_NE(attempt.seen().body.find(token("a")), std::string::npos) << row.what;
}

TEST(MalformedAnswer, IsRefusedOrBrokenOffAndCountedHoweverItsBytesAreCut) {
  for (const auto& row : malformed_answers()) {
    for (const std::size_t size : {1u, 2u, 3u, 7u, 100u, 4096u, 60'000u}) {
      if (row.bytes.size() / size > 10'000) continue;
      AttemptStory attempt;
      attempt.arrives_split(row.bytes, {size});
      expect_refused(attempt, row);
    }
  }
}

TEST(MalformedAnswer, IsNoneUpToTheLimits) {
  const std::string rows[]{
      repeated(hint, 100) + whole_answer("200 OK", "{}"),
      repeated("HTTP/1.1 103 Early Hints\r\nX: " + std::string(9'000, 'x') + "\r\n\r\n", 7) +
          whole_answer("200 OK", "{}"),
      ok(repeated("x: y\r\n", 99) + "Content-Length: 2\r\n") + "{}",
      ok("X: " + std::string(65'000, 'x') + "\r\nContent-Length: 2\r\n") + "{}",
      ok("Transfer-Encoding: chunked\r\n") + "2;a=\"b;\"\r\n{}\r\n0;c\r\nx: y\r\n\r\n",
  };
  for (const auto& bytes : rows) {
    Circumstances whole;
    whole.stream = false;
    AttemptStory attempt(whole);
    attempt.arrives_split(bytes, {60'000});
    EXPECT_TRUE(attempt.machine->upstream_reusable()) << bytes.substr(0, 80);
    EXPECT_EQ(attempt.seen().body, "{}") << bytes.substr(0, 80);
    for (const auto& counter : attempt.shard.malformed) EXPECT_EQ(counter.value(), 0u) << bytes.substr(0, 80);
  }
}

TEST(MalformedAnswer, BytesBehindAWholeOneCostOnlyItsConnection) {
  for (const auto* behind : {"x", "\r\n", "HTTP/1.1 200 OK\r\n\r\n"}) {
    AttemptStory attempt;
    attempt.arrives(whole_answer("200 OK", "{}") + behind);
    EXPECT_EQ(attempt.told(), "relayed, ok_empty, whole, client") << behind;
    EXPECT_EQ(attempt.seen().body, "{}");
    expect_counted(attempt, Malformed::surplus, behind);
  }
}

TEST(MalformedAnswer, ABodyWhereNoneMayBeIsSurplus) {
  Circumstances to_head;
  to_head.to_head = true;
  to_head.stream = false;
  AttemptStory head(to_head), not_modified;
  head.arrives(whole_answer("200 OK", "{}"));
  not_modified.arrives("HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n{}");
  for (auto* attempt : {&head, &not_modified}) {
    EXPECT_EQ(attempt->machine->reply(), Reply::relayed);
    EXPECT_FALSE(attempt->machine->upstream_reusable());
    expect_counted(*attempt, Malformed::surplus, "a body");
    EXPECT_EQ(attempt->client.find("{}"), std::string::npos) << "it reaches nobody";
  }
}

}  // namespace
}  // namespace weir::proxy::exchange

#include "proxy/fleet/question.hpp"

#include <gtest/gtest.h>

#include "metrics/measure/stream_meter.hpp"

namespace weir::proxy::fleet {
namespace {

struct Noting final : AnswerReader {
  void head(const http::ResponseHead& head, metrics::Moment, metrics::Moment) override { status = head.status; }
  bool body(std::span<const char> bytes, metrics::Moment) override {
    text.append(bytes.data(), bytes.size());
    return text.size() <= longest;
  }
  void end(bool is_whole, bool is_framed, metrics::Moment) override {
    ++ends;
    whole = is_whole;
    framed = is_framed;
  }
  std::size_t longest = 1000;
  unsigned status = 0;
  std::string text;
  int ends = 0;
  bool whole = false, framed = false;
};

/// Reads an answer that comes in pieces of this size; what arrived() says of the last one, if it says something.
std::optional<QuestionResult> read(ReplicaAnswer& answer, std::string_view bytes, std::size_t piece) {
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
    std::string buffer(bytes.substr(0, piece));
    const auto size = buffer.size();
    buffer.append(metrics::measure::StreamMeter::padding, '\0');
    if (auto end = answer.arrived(std::span(buffer).first(size), {})) return end;
  }
  return std::nullopt;
}

constexpr std::size_t pieces[]{1, 3, 1000};

TEST(Question, IsOneRequestBehindWhichTheConnectionCloses) {
  const config::ReplicaUrl url{"gpu", 8000, "/a", "gpu:8000"};
  Question question;
  question.path = "/v1/models";
  EXPECT_EQ(
      bytes_of(url, question),
      "GET /a/v1/models HTTP/1.1\r\nhost: gpu:8000\r\nuser-agent: weir\r\naccept: */*\r\nconnection: close\r\n\r\n");
  question.method = "POST";
  question.body = "{}";
  question.credential = bearer("key");
  EXPECT_EQ(bytes_of(url, question),
            "POST /a/v1/models HTTP/1.1\r\nhost: gpu:8000\r\nuser-agent: weir\r\naccept: */*\r\nconnection: close\r\n"
            "authorization: Bearer key\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}");
  EXPECT_EQ(bearer(""), "");
}

TEST(ReplicaAnswer, IsWholeWhereItsFramingEndsBehindInterimHeads) {
  for (const auto piece : pieces) {
    Noting reader;
    ReplicaAnswer answer(reader, {});
    const auto end = read(answer,
                          "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"
                          "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
                          piece);
    ASSERT_TRUE(end);
    EXPECT_EQ(end->end, QuestionEnd::answered);
    EXPECT_EQ(reader.status, 200u);
    EXPECT_EQ(reader.text, "hello");
    EXPECT_TRUE(reader.whole && reader.framed);
    EXPECT_EQ(reader.ends, 1);
  }
}

TEST(ReplicaAnswer, IsEndedByTheCloseOnlyWhereNothingElseEndsIt) {
  const struct {
    const char* bytes;
    bool whole;
  } rows[]{{"HTTP/1.1 200 OK\r\n\r\nhello", true},
           {"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", false},
           {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", false}};
  for (const auto& row : rows)
    for (const auto piece : pieces) {
      Noting reader;
      ReplicaAnswer answer(reader, {});
      EXPECT_FALSE(read(answer, row.bytes, piece));
      EXPECT_EQ(answer.closed({}).end, row.whole ? QuestionEnd::answered : QuestionEnd::failed) << row.bytes;
      EXPECT_EQ(reader.text, "hello");
      EXPECT_EQ(reader.whole, row.whole) << row.bytes;
      EXPECT_FALSE(reader.framed);
    }
}

TEST(ReplicaAnswer, IsNoneWhereTheConnectionClosesWithinTheHead) {
  Noting reader;
  ReplicaAnswer answer(reader, {});
  EXPECT_FALSE(read(answer, "HTTP/1.1 200 OK\r\nContent-Le", 1000));
  EXPECT_EQ(answer.closed({}).end, QuestionEnd::failed);
  EXPECT_EQ(reader.status, 0u);
  EXPECT_EQ(reader.ends, 0);
}

TEST(ReplicaAnswer, FailsWhereItIsNoHttpOrTooLong) {
  const std::string rows[]{"hello, this is telnet\r\n\r\n",
                           "SSH-2.0-OpenSSH_9.2\r\n",
                           "HTTP/2 200",
                           "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
                           "HTTP/1.1 200 OK\r\nA: " + std::string(64 * 1024, 'a'),
                           "HTTP/1.1 200 OK\r\n\r\n" + std::string(1001, 'x'),
                           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n"};
  for (const auto& bytes : rows) {
    Noting reader;
    ReplicaAnswer answer(reader, {});
    const auto end = read(answer, bytes, 5000);
    ASSERT_TRUE(end) << bytes.substr(0, 60);
    EXPECT_EQ(end->end, QuestionEnd::failed) << bytes.substr(0, 60);
    EXPECT_FALSE(reader.whole);
  }
}

}  // namespace
}  // namespace weir::proxy::fleet

// A replica that sends records without data holds the control thread no longer than a turn, and loses its connection.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <optional>

#include "metrics/measure/stream_meter.hpp"
#include "proxy/fleet/replica_stream.hpp"
#include "tests/unit/proxy/net/loopback_listener.hpp"
#include "tests/unit/proxy/net/tls/tls_peer.hpp"

namespace weir::proxy::fleet {
namespace {

using std::chrono::seconds;

class StreamOfAReplica : public testing::Test {
 protected:
  void open() {
    config::ReplicaTls settings;
    settings.ca = net::tls::test_file("ca.pem");
    auto target = std::make_shared<net::tls::Target>(std::make_shared<net::tls::ClientContext>(settings), "localhost");
    stream.emplace(context.get_executor(), net::Destination(listener.endpoint, std::move(target)), seconds(60));
    const auto work = [](ReplicaStream& its, std::optional<int>& error, std::vector<std::ptrdiff_t>& reads,
                         std::span<char> into) -> net::Awaitable<void> {
      error = co_await its.connect();
      for (;;) {
        const auto read = co_await its.read(into);
        reads.push_back(read.size);
        if (read.size <= 0) co_return;
      }
    };
    boost::asio::co_spawn(context, work(*stream, connected, got, buffer), boost::asio::detached);
    while (!far) {
      context.poll();
      far.reset(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    }
    const auto most = std::chrono::steady_clock::now() + seconds(10);
    while (!connected && std::chrono::steady_clock::now() < most) {
      context.poll();
      carry();
    }
    ASSERT_EQ(connected, 0);
  }
  void carry() {
    std::array<char, 16384> bytes;
    const auto size = ::recv(far.get(), bytes.data(), bytes.size(), 0);
    if (size > 0) peer.accept({bytes.data(), static_cast<std::size_t>(size)});
    out += peer.take_ciphertext();
    const auto sent = ::send(far.get(), out.data(), out.size(), MSG_NOSIGNAL);
    if (sent > 0) out.erase(0, static_cast<std::size_t>(sent));
  }
  void change_keys(int times) {
    for (int i = 0; i < times; ++i) {
      SSL_key_update(&peer.ssl(), SSL_KEY_UPDATE_NOT_REQUESTED);
      SSL_do_handshake(&peer.ssl());
    }
    out += peer.take_ciphertext();
  }
  /// Carries until so many reads have ended.
  void run(std::size_t reads) {
    const auto most = std::chrono::steady_clock::now() + seconds(10);
    while (got.size() < reads && std::chrono::steady_clock::now() < most) {
      carry();
      const auto before = std::chrono::steady_clock::now();
      context.poll_one();
      longest = std::max(longest, std::chrono::steady_clock::now() - before);
    }
  }

  const net::LoopbackListener listener;
  boost::asio::io_context context{1};
  net::tls::TlsPeer peer = net::tls::TlsPeer::server("local");
  std::optional<ReplicaStream> stream;
  std::optional<int> connected;
  std::vector<std::ptrdiff_t> got;
  std::array<char, 4096> buffer{};
  std::string out;
  net::UniqueFd far;
  std::chrono::steady_clock::duration longest{};
};

TEST_F(StreamOfAReplica, EndsWhereItsKeysChangeWithoutAnEnd) {
  open();
  change_keys(60'000);
  run(1);
  ASSERT_EQ(got.size(), 1u) << "longest turn: " << longest / std::chrono::microseconds(1) << " us";
  EXPECT_EQ(got.front(), -1);
}

TEST_F(StreamOfAReplica, GoesOnWhereItsKeysChangeNowAndThen) {
  open();
  for (std::size_t i = 1; i <= 20; ++i) {
    change_keys(10);
    peer.write("token");
    run(i);
  }
  EXPECT_EQ(got, std::vector<std::ptrdiff_t>(20, 5));
}

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

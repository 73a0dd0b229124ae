#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "lab/load/connection.hpp"
#include "lab/load/measure.hpp"
#include "lab/sim/answer.hpp"
#include "tests/http.hpp"
#include "tests/unit/lab/load/made_results.hpp"

namespace weir::lab::load {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

/// Answers one request with these bytes, which fit in one read.
class OneAnswer {
 public:
  OneAnswer(asio::io_context& io, std::string bytes)
      : acceptor_(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)), socket_(io), bytes_(std::move(bytes)) {
    acceptor_.async_accept(socket_, [this](boost::system::error_code) {
      socket_.async_read_some(asio::buffer(request_), [this](boost::system::error_code, std::size_t) {
        asio::async_write(socket_, asio::buffer(bytes_), [](boost::system::error_code, std::size_t) {});
      });
    });
  }
  tcp::endpoint endpoint() const { return acceptor_.local_endpoint(); }

 private:
  tcp::acceptor acceptor_;
  tcp::socket socket_;
  std::string bytes_;
  char request_[1024];
};

TEST(Connection, AnAnswerEndsWithItsLastReadNotWithItsParsing) {
  const std::string body = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n";
  asio::io_context io;
  OneAnswer server(io, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: " +
                           std::to_string(body.size()) + "\r\n\r\n" + body);
  Later later;
  std::optional<Result> ended;
  const Server to{server.endpoint()};
  const auto connection = std::make_shared<Connection>(io, to, later);
  Outgoing outgoing;
  outgoing.bytes = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n";
  connection->run(std::move(outgoing), [&](const std::shared_ptr<Connection>&, Result r) { ended = std::move(r); });
  io.run();  // The answer has been read, and waits to be parsed.
  ASSERT_FALSE(ended);
  const auto read = Clock::now();
  while (Clock::now() == read) {
  }
  while (later.run_one()) {
    io.restart();
    io.run();
  }
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->outcome, "ok") << ended->detail;
  EXPECT_LE(ended->ended, read);
  EXPECT_EQ(ended->ended, ended->stream.answer.first_token) << "the last read brought both";
}

TEST(Connection, AnAnswerIsOkWhereItIsToWeir) {
  const std::string said = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
  const std::string stop = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
  const std::string events = "content-type: text/event-stream\r\n";
  const struct {
    std::string head, body, outcome, detail;
  } rows[]{{events, said + stop + "data: [DONE]\n\n", "ok", ""},
           {events, said + stop + "data: [DONE]", "ok", ""},
           {events, said + stop, "ok", ""},
           {"", said + stop, "ok", ""},
           {events, said, "truncated", "the stream ended without"},
           {"content-type: text/html\r\n", "<p>hello", "invalid", "expected text/event-stream, got \"text/html\""},
           {"content-type: application/json\r\n", "{}", "invalid", "expected text/event-stream, got"},
           {events + "content-encoding: gzip\r\n", "\x1f\x8b", "invalid", "the answer is coded"},
           {events, said + "data: {\"error\":{\"message\":\"no memory\"}}\n\n", "in_band", "no memory"}};
  for (const auto& row : rows) {
    asio::io_context io;
    OneAnswer server(io, "HTTP/1.1 200 OK\r\n" + row.head + "content-length: " + std::to_string(row.body.size()) +
                             "\r\n\r\n" + row.body);
    Later later;
    std::optional<Result> ended;
    const Server to{server.endpoint()};
    Outgoing outgoing;
    outgoing.bytes = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n";
    const auto connection = std::make_shared<Connection>(io, to, later);
    connection->run(std::move(outgoing), [&](const std::shared_ptr<Connection>&, Result r) { ended = std::move(r); });
    while (!ended && (io.run_one() > 0 || later.run_one())) {
      while (later.run_one()) continue;
      io.restart();
    }
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->outcome, row.outcome) << row.head << row.body;
    EXPECT_THAT(ended->detail, testing::StartsWith(row.detail));
  }
}

/// Speaks TLS with the certificate for localhost and 127.0.0.1, and gives the same answer to each request.
asio::awaitable<void> answer_over_tls(tcp::socket socket, asio::ssl::context& context, std::string answer) {
  asio::ssl::stream<tcp::socket> stream(std::move(socket), context);
  co_await stream.async_handshake(asio::ssl::stream_base::server, asio::use_awaitable);
  std::array<char, 4096> request;
  while (true) {  // An exception ends it: the client has gone.
    co_await stream.async_read_some(asio::buffer(request), asio::use_awaitable);
    co_await asio::async_write(stream, asio::buffer(answer), asio::use_awaitable);
  }
}

TEST(Connection, OverTlsDemandsTheHostsCertificateOfAnAuthorityAndIsKept) {
  const std::string tls = WEIR_TEST_DATA "/tls/";
  const std::string body = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n";
  const struct {
    std::string ca, host, outcome, detail;
  } rows[]{{tls + "ca.pem", "127.0.0.1", "ok", ""},
           {tls + "ca.pem", "localhost", "ok", ""},
           {tls + "ca.pem", "127.0.0.2", "connect", "TLS: certificate verify failed: IP address mismatch"},
           {tls + "ca.pem", "example.test", "connect", "TLS: certificate verify failed: hostname mismatch"},
           {tls + "stranger_ca.pem", "localhost", "connect", "TLS: certificate verify failed: "}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.ca + ' ' + row.host);
    asio::io_context io;
    asio::ssl::context shown(asio::ssl::context::tls_server);
    shown.use_certificate_chain_file(tls + "local.pem");
    shown.use_private_key_file(tls + "local.key", asio::ssl::context::pem);
    tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
    acceptor.async_accept([&](boost::system::error_code, tcp::socket socket) {
      asio::co_spawn(io,
                     answer_over_tls(std::move(socket), shown,
                                     "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: " +
                                         std::to_string(body.size()) + "\r\n\r\n" + body),
                     asio::detached);
    });
    Later later;
    const Server to{acceptor.local_endpoint(), net::client_context(row.ca), row.host};
    const auto connection = std::make_shared<Connection>(io, to, later);
    for (int request = 0; request < 2; ++request) {
      std::optional<Result> ended;
      Outgoing outgoing;
      outgoing.bytes = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n";
      connection->run(std::move(outgoing), [&](const std::shared_ptr<Connection>&, Result r) { ended = std::move(r); });
      while (!ended && (io.run_one() > 0 || later.run_one())) {
        while (later.run_one()) continue;
      }
      ASSERT_TRUE(ended);
      EXPECT_EQ(ended->outcome, row.outcome) << ended->detail;
      EXPECT_EQ(ended->detail.substr(0, row.detail.size()), row.detail);
      EXPECT_EQ(connection->reusable(), row.outcome == "ok")
          << "the second request goes out on the connection of the first";
      if (row.outcome != "ok") break;
      EXPECT_EQ(ended->stream.answer.token_events, 1u);
    }
    connection->fail("over", "");  // Closes it, so that the server ends.
    io.run();
  }
  EXPECT_THROW(net::client_context("/nowhere/ca.pem"), std::invalid_argument);
}

TEST(Target, TheEndOfABaseUrlOfSdksIsDropped) {
  for (const char* url : {"http://h:8000/v1", "http://h:8000/v1/"}) {
    EXPECT_EQ(without_v1(url), "http://h:8000") << url;
  }
  EXPECT_EQ(without_v1("http://h/engine/v1"), "http://h/engine");
  for (const char* url : {"http://h:8000", "http://h:8000/", "http://h/v1/x", "http://h/xv1", "http://v1"}) {
    const std::string kept = without_v1(url);
    EXPECT_EQ(kept, url);
  }
}

TEST(Header, IsAFieldThatTheLoadDoesNotSetItself) {
  for (const char* field : {"x-team: search", "X-Team:", "cookie: a=b; c=d", "x: a:b", "authorization: Basic eA=="}) {
    EXPECT_EQ(header_problem(field), "") << field;
  }
  for (const char* field : {"", "x-team", ": x", "x team: y", "x\u00e9: y", "host: a", "Content-Length: 3",
                            "transfer-encoding: chunked", "X-Request-Id: 1", "x: a\r\nb: c", "x: a\nb"}) {
    EXPECT_NE(header_problem(field), "") << field;
  }
}

using metrics::Completeness;
using testing::ElementsAre;

std::string event(std::string_view json) { return "data: " + std::string(json) + "\n\n"; }
std::string delta(const std::string& members, const std::string& rest = "") {
  return event(R"({"choices":[{"index":0,"delta":{)" + members + "}" + rest + "}]}");
}
const std::string stop = delta("", R"(,"finish_reason":"stop")");

TEST(StreamReader, TheRoleAndTheEmptyFinishAreNoTokens) {
  StreamReader reader(Api::chat);
  feed(reader, delta(R"("role":"assistant","content":"")"), at(10));
  EXPECT_FALSE(reader.stream().answer.first_token);
  feed(reader, delta(R"("content":"a")"), at(20));
  feed(reader, delta(R"("content":"\"usage\":{\"completion_tokens\":99}")"), at(35));
  EXPECT_FALSE(reader.stream().closed_empty());
  feed(reader, stop, at(50));
  EXPECT_TRUE(reader.stream().closed_empty());
  feed(reader, event(R"({"choices":[],"usage":{"prompt_tokens":31,"total_tokens":34,"completion_tokens":3}})"), at(90));
  feed(reader, "data: [DONE]\n\n", at(90));
  reader.end(true, at(91));
  EXPECT_EQ(reader.stream().answer.complete, Completeness::marker);
  EXPECT_EQ(reader.stream().answer.token_events, 2u);
  EXPECT_EQ(reader.stream().answer.first_token, at(20));
  EXPECT_EQ(reader.stream().answer.last_choice, at(50));
  EXPECT_EQ(reader.stream().answer.prompt_tokens, 31u);
  EXPECT_EQ(reader.stream().output_tokens(), 3u);
  EXPECT_THAT(reader.stream().gaps, ElementsAre(testing::FloatEq(0.015f)));
  EXPECT_DOUBLE_EQ(*reader.stream().tpot(), 0.015);  // (50 - 20) / (3 - 1)
}

TEST(StreamReader, WithoutUsageTokensAreEvents) {
  StreamReader reader(Api::completions);
  for (int i = 0; i < 5; ++i)
    feed(reader, event(R"({"choices":[{"index":0,"text":" w","finish_reason":null}]})"), at(20 * i));
  feed(reader, event(R"({"choices":[{"index":0,"text":"","finish_reason":"stop"}]})"), at(100));
  EXPECT_EQ(reader.stream().output_tokens(), 5u);
  EXPECT_EQ(reader.stream().answer.output_tokens, std::nullopt);
  EXPECT_DOUBLE_EQ(*reader.stream().tpot(), 0.020);
}

TEST(StreamReader, EverythingThatIsATokenToWeirIsOneHere) {
  for (const char* members : {R"("reasoning":"hm")", R"("tool_calls":[{"index":0}])", R"("function_call":{"name":"f"})",
                              R"("refusal":"No")", R"("content":[{"type":"text","text":"a"}])"}) {
    StreamReader reader(Api::chat);
    feed(reader, delta(R"("role":"assistant")") + delta(members) + stop, at(1));
    EXPECT_EQ(reader.stream().answer.token_events, 1u) << members;
  }
  StreamReader counted(Api::chat);
  const auto count = [](int n) {
    return event(R"({"choices":[{"index":0,"delta":{"content":""}}],"usage":{"completion_tokens":)" +
                 std::to_string(n) + "}}");
  };
  for (const int n : {0, 3, 3, 5}) feed(counted, count(n), at(10 * n));
  EXPECT_EQ(counted.stream().answer.first_token, at(30)) << "a count that rises is a token, whatever the delta shows";
  EXPECT_EQ(counted.stream().answer.token_events, 2u);
  EXPECT_EQ(counted.stream().output_tokens(), 5u);
  EXPECT_DOUBLE_EQ(*counted.stream().tpot(), 0.010);  // (50 - 30) / (5 - 3)
}

TEST(StreamReader, AThoughtIsNoOutput) {
  StreamReader reader(Api::chat);
  feed(reader, delta(R"("reasoning":"hm")"), at(1));
  feed(reader, delta(R"("content":"a\n\u00e9")"), at(2));
  feed(reader, delta(R"("content":"b")"), at(3));
  EXPECT_EQ(reader.stream().answer.first_output, at(2));
  EXPECT_EQ(reader.stream().answer.output_chars, 6u);
}

TEST(StreamReader, AStreamIsCompleteWhereItIsToWeir) {
  const std::string said = delta(R"("content":"a")");
  const struct {
    std::string body;
    bool framed;
    Completeness complete;
  } cases[] = {{said + stop + "data: [DONE]\n\n", true, Completeness::marker},
               {said + stop + "data: [DONE]", true, Completeness::marker},
               {said + "data:[DONE]\n\n", true, Completeness::marker},
               {said + stop, true, Completeness::finish},
               {said + stop, false, Completeness::finish},
               {said, true, Completeness::none},
               {said + stop.substr(0, 40), true, Completeness::none},
               {"", true, Completeness::none}};
  for (const auto& c : cases) {
    StreamReader reader(Api::chat);
    if (!c.body.empty()) feed(reader, c.body, at(1));
    reader.end(c.framed, at(2));
    EXPECT_EQ(reader.stream().answer.complete, c.complete) << c.body;
  }
  const StreamReader reader(Api::chat);
  EXPECT_TRUE(reader.reads(200, "text/event-stream; charset=utf-8", false));
  EXPECT_TRUE(reader.reads(200, "", false)) << "some servers name no type";
  EXPECT_FALSE(reader.reads(200, "application/json", false));
  EXPECT_FALSE(reader.reads(200, "text/event-stream", true));
}

TEST(StreamReader, TellsTheWordsOfAnErrorAtEverySplit) {
  const struct {
    Api api;
    std::string json, says;
  } cases[] = {
      {Api::chat, R"({"error": {"message": "out of memory", "type": "InternalServerError", "code": 500}})",
       "out of memory"},
      {Api::tgi, R"({"error":"Model is overloaded","error_type":"overloaded"})", "Model is overloaded"},
      {Api::chat, R"({"error":{"code":7}})", R"({"code":7})"},
      {Api::chat, R"({"choices":[{"index":0,"delta":{},"finish_reason":"abort"}]})",
       R"({"choices":[{"index":0,"delta":{},"finish_reason":"abort"}]})"},
  };
  for (const auto& c : cases) {
    for (const std::string& end : {std::string("\n\ndata: [DONE]\n\n"), std::string()}) {
      const std::string body = delta(R"("content":"the error")") + "data: " + c.json + end;
      for (std::size_t piece = 1; piece <= body.size(); ++piece) {
        StreamReader reader(c.api);
        for (std::size_t i = 0; i < body.size(); i += piece) feed(reader, body.substr(i, piece), at(1));
        reader.end(true, at(1));
        ASSERT_TRUE(reader.stream().answer.in_band_error);
        ASSERT_EQ(reader.stream().error, c.says) << body << " in pieces of " << piece;
      }
    }
  }
}

/// Returns what a simulated replica writes, without its head and chunk framing.
std::string body_of(const sim::Answer& answer, std::uint64_t tokens) {
  std::string framed;
  for (std::uint64_t i = 1; i <= tokens; ++i) answer.append_tokens(framed, i, i);
  std::string body;
  tests::BodyReader(tests::BodyReader::Framing::chunked).read(framed, body);
  return body;
}

TEST(StreamReader, CountsWhatTheSimulatedReplicaSaysAtEverySplit) {
  for (const sim::Route route : {sim::Route::chat, sim::Route::completions, sim::Route::tgi_generate_stream}) {
    for (const bool by_stop : {false, true}) {
      sim::Request request;
      request.route = route;
      request.stream = request.include_usage = request.details = true;
      request.prompt_tokens = 40;
      const sim::Answer answer(request, {12, by_stop}, "m", 5, 1);
      const std::string body = body_of(answer, 12);
      const Api api = route == sim::Route::chat          ? Api::chat
                      : route == sim::Route::completions ? Api::completions
                                                         : Api::tgi;
      for (std::size_t piece = 1; piece < 300; ++piece) {
        StreamReader reader(api);
        for (std::size_t i = 0; i < body.size(); i += piece)
          feed(reader, std::string_view(body).substr(i, piece), at(static_cast<int>(i)));
        reader.end(true, at(1'000'000));
        ASSERT_EQ(reader.stream().answer.complete, Completeness::marker);
        ASSERT_EQ(reader.stream().error, "");
        ASSERT_EQ(reader.stream().output_tokens(), 12u);
        ASSERT_EQ(reader.stream().answer.prompt_tokens, 40u);
        ASSERT_EQ(reader.stream().answer.token_events, by_stop && api != Api::tgi ? 11u : 12u);
        ASSERT_EQ(reader.stream().gaps.size(), reader.stream().answer.token_events - 1);
      }
    }
  }
}

}  // namespace
}  // namespace weir::lab::load

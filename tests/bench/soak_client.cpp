// bench_soak_client keeps streams under way through TLS for a long time, and counts what became of each request.
//
// Usage: bench_soak_client --port P [--streams 300] [--seconds 3600] [--tokens 200] [--leave 0.1]
//   --tokens  half to one and a half times as many are asked for
//   --leave   share of the requests whose client leaves in the middle of its answer, half of them by a reset
// A connection serves a few requests, then another is made, without resumption half of the time. The program prints one
// JSON object: how many requests were sent, how many had their whole stream (`complete`), an error event, another
// status than 200 by status, a cut answer, no answer, and a client that left. It ends when the last stream after those
// seconds has ended, and has one thread.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "tests/bench/relay_sockets.hpp"

namespace {

using namespace weir::bench;
namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::use_awaitable;
using asio::ip::tcp;
using Error = boost::system::error_code;

struct Counts {
  std::uint64_t sent = 0, complete = 0, errors = 0, cut = 0, unanswered = 0, left = 0, handshakes = 0,
                broken_handshakes = 0, resumed = 0;
  std::map<unsigned, std::uint64_t> refused;
};

struct Load {
  std::uint16_t port = 0;
  double tokens = 200, leave = 0.1;
  std::chrono::steady_clock::time_point end;
};

/// A client: one request after another, on one connection after another.
class Client {
 public:
  Client(asio::io_context& context, asio::ssl::context& tls, const Load& load, Counts& counts, unsigned number)
      : context_(context), tls_(tls), load_(load), counts_(counts), number_(number), dice_(number) {}
  ~Client() { SSL_SESSION_free(session_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  asio::awaitable<void> run() {
    while (std::chrono::steady_clock::now() < load_.end) co_await connection();
  }

 private:
  using Stream = asio::ssl::stream<tcp::socket>;

  bool chance(double share) { return std::uniform_real_distribution(0.0, 1.0)(dice_) < share; }

  asio::awaitable<void> connection() {
    Stream stream(context_, tls_);
    const tcp::endpoint to(asio::ip::address_v4::loopback(), load_.port);
    Error error;
    co_await stream.next_layer().async_connect(to, asio::redirect_error(use_awaitable, error));
    if (error) fail("connect: " + error.message());
    if (session_ != nullptr && chance(0.5)) SSL_set_session(stream.native_handle(), session_);
    co_await stream.async_handshake(asio::ssl::stream_base::client, asio::redirect_error(use_awaitable, error));
    ++counts_.handshakes;
    if (error) {
      ++counts_.broken_handshakes;
      co_return;
    }
    counts_.resumed += static_cast<std::uint64_t>(SSL_session_reused(stream.native_handle()));
    bool goes_on = true;
    for (int left = std::uniform_int_distribution(1, 8)(dice_); goes_on && left > 0; --left) {
      if (std::chrono::steady_clock::now() >= load_.end) break;
      goes_on = co_await request(stream);
    }
    SSL_SESSION_free(session_);
    session_ = SSL_get1_session(stream.native_handle());
    // OpenSSL lets nobody resume a session whose connection was not shut down.
    SSL_set_quiet_shutdown(stream.native_handle(), 1);
    SSL_shutdown(stream.native_handle());
  }

  std::string text() {
    const auto least = static_cast<unsigned>(load_.tokens / 2), most = static_cast<unsigned>(load_.tokens * 1.5);
    const auto tokens = std::uniform_int_distribution(least, most)(dice_);
    const std::string prompt(std::uniform_int_distribution(20u, 2000u)(dice_), 'p');
    const auto body = R"({"stream":true,"stream_options":{"include_usage":true},"max_tokens":)" +
                      std::to_string(tokens) + R"(,"messages":[{"role":"user","content":")" + prompt + "\"}]}";
    return "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Request-Id: "
           "c" +
           std::to_string(number_) + "-" + std::to_string(++asked_) +
           "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }

  /// Returns false if the connection cannot serve another request.
  asio::awaitable<bool> request(Stream& stream) {
    const auto bytes = text();
    const auto buffer = asio::buffer(bytes);
    Error error;
    co_await asio::async_write(stream, buffer, asio::redirect_error(use_awaitable, error));
    ++counts_.sent;
    http::response_parser<http::string_body> answer;
    answer.body_limit(64u * 1024 * 1024);
    boost::beast::flat_buffer read;
    co_await http::async_read_header(stream, read, answer, asio::redirect_error(use_awaitable, error));
    if (error) {
      ++counts_.unanswered;
      co_return false;
    }
    // The bytes after which the client leaves, if it leaves at all. A token has some 250.
    const auto most = chance(load_.leave) ? std::uniform_int_distribution<std::size_t>(1, 30'000)(dice_) : SIZE_MAX;
    while (!answer.is_done() && answer.get().body().size() < most) {
      co_await http::async_read_some(stream, read, answer, asio::redirect_error(use_awaitable, error));
      if (error) break;
    }
    co_return settle(stream, answer, static_cast<bool>(error));
  }

  bool settle(Stream& stream, http::response_parser<http::string_body>& answer, bool cut) {
    const auto& body = answer.get().body();
    if (!answer.is_done() && !cut) {
      ++counts_.left;
      if (chance(0.5)) stream.next_layer().set_option(tcp::socket::linger(true, 0));
      return false;
    }
    if (cut) {
      ++counts_.cut;
      return false;
    }
    if (answer.get().result_int() != 200) {
      ++counts_.refused[answer.get().result_int()];
    } else if (body.find("data: {\"error\"") != body.npos) {
      ++counts_.errors;
    } else if (body.ends_with("data: [DONE]\n\n")) {
      ++counts_.complete;
    } else {
      ++counts_.cut;
    }
    return answer.keep_alive();
  }

  asio::io_context& context_;
  asio::ssl::context& tls_;
  const Load& load_;
  Counts& counts_;
  const unsigned number_;
  std::mt19937 dice_;
  std::uint64_t asked_ = 0;
  SSL_SESSION* session_ = nullptr;
};

void print(const Counts& counts) {
  std::string refused;
  for (const auto& [status, n] : counts.refused)
    refused += (refused.empty() ? "" : ", ") + ("\"" + std::to_string(status) + "\": ") + std::to_string(n);
  std::string text;
  for (const auto& [name, n] : {std::pair("sent", counts.sent),
                                {"complete", counts.complete},
                                {"errors", counts.errors},
                                {"cut", counts.cut},
                                {"unanswered", counts.unanswered},
                                {"left", counts.left},
                                {"handshakes", counts.handshakes},
                                {"broken_handshakes", counts.broken_handshakes},
                                {"resumed", counts.resumed}}) {
    text += "\"" + std::string(name) + "\": " + std::to_string(n) + ", ";
  }
  std::printf("{%s\"refused\": {%s}}\n", text.c_str(), refused.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const Load load{.port = static_cast<std::uint16_t>(option(argc, argv, "--port", 0)),
                  .tokens = option(argc, argv, "--tokens", 200),
                  .leave = option(argc, argv, "--leave", 0.1),
                  .end = std::chrono::steady_clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(
                                                                option(argc, argv, "--seconds", 3600) * 1000))};
  asio::io_context context(1);
  asio::ssl::context tls(asio::ssl::context::tls_client);
  Counts counts;
  std::vector<std::unique_ptr<Client>> clients;
  const auto streams = static_cast<unsigned>(option(argc, argv, "--streams", 300));
  for (unsigned i = 0; i < streams; ++i) {
    clients.push_back(std::make_unique<Client>(context, tls, load, counts, i));
    asio::co_spawn(context, clients.back()->run(), asio::detached);
  }
  context.run();
  print(counts);
}

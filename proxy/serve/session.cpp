#include "proxy/serve/session.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "metrics/wire/request/inspector.hpp"
#include "proxy/fleet/model_directory.hpp"

namespace weir::proxy::serve {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using metrics::Moment;
using metrics::Outcome;
using metrics::series::Limit;

/// A refused request's rest is read and dropped this far, so that closing does not reset the answer away.
constexpr std::size_t linger_bytes = 1024 * 1024;
constexpr std::chrono::seconds linger_time{1};
/// What one handler reads and inspects of a request before tokens get their turn: some tens of microseconds.
constexpr std::size_t bite = 16 * 1024;

/// Sees the client leave while weir is asking replicas for it.
class Departure final : net::Watcher {
 public:
  Departure(exchange::Loop& loop, int client, fleet::Halt& halt)
      : halt_(halt), watch_(loop.poller, client, EPOLLRDHUP, *this, 0) {}
  bool seen() const { return seen_; }

 private:
  void ready(std::uint32_t, std::uint32_t events) override {
    if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == 0) return;
    seen_ = true;
    halt_.call();
  }
  void approach(std::uint32_t, int) const override {}

  fleet::Halt& halt_;
  bool seen_ = false;
  net::Poller::Watch watch_;
};

class Session final : net::Timed {
 public:
  Session(exchange::Loop& loop, net::UniqueFd client, bool ipv6);
  ~Session();
  net::Awaitable<void> run();

 private:
  enum class Got : unsigned char { bytes, nothing, end };

  net::Awaitable<bool> serve_one();
  net::Awaitable<bool> read_head(exchange::ClientRequest& request);
  net::Awaitable<bool> read_body(exchange::ClientRequest& request);
  net::Awaitable<bool> answer(exchange::ClientRequest& request);
  net::Awaitable<bool> answer_own(exchange::ClientRequest& request);
  net::Awaitable<std::optional<http::OwnAnswer>> answer_models(exchange::ClientRequest& request);
  net::Awaitable<bool> refuse(exchange::ClientRequest& request, unsigned status, std::string_view sentence,
                              std::optional<Limit> limit);
  void received(exchange::ClientRequest& request) const;
  bool left_early(exchange::ClientRequest& request);
  net::Awaitable<bool> send_own(const exchange::ClientRequest& request, const http::OwnAnswer& own, bool keep_alive);
  net::Awaitable<bool> write(std::string text);
  net::Awaitable<bool> readable();
  Got read_now(std::span<char>& bytes);
  net::Awaitable<void> linger();

  Moment deadline() const override;
  void deadline_passed(Moment now) override;

  exchange::Loop& loop_;
  const config::Limits& limits_;
  asio::basic_stream_socket<asio::ip::tcp, asio::io_context::executor_type> socket_;
  std::string unread_;
  Moment last_arrival_{};  ///< When the kernel received what was read last.
  Moment deadline_ = Moment::max();
  bool idle_ = true, timed_out_ = false;
  fleet::Halt* halt_ = nullptr;  ///< While replicas are asked for the client.
};

Session::Session(exchange::Loop& loop, net::UniqueFd client, bool ipv6)
    : loop_(loop), limits_(loop.shared.settings.limits), socket_(loop.context.get_executor()) {
  const int on = 1, seconds = 30, interval = 10, probes = 3;
  // The kernel gives a client up after weir does: a closed window counts for it too, and weir's own limit is counted.
  const int stall = static_cast<int>((limits_.client_stall.count() + 5) * 1000);
  const int fd = client.get();
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &stall, sizeof stall);
  boost::system::error_code error;
  // Where the reactor takes no more descriptors, `client` closes this one, and reading from the socket fails at once.
  socket_.assign(ipv6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), fd, error);
  if (!error) client.release();
  socket_.non_blocking(true, error);
  loop_.clock.enable(fd);
  loop_.deadlines.attach(*this);
}

Session::~Session() {
  loop_.connections.fetch_sub(1, std::memory_order_relaxed);
  loop_.shared.connections.fetch_sub(1, std::memory_order_relaxed);
}

Moment Session::deadline() const {
  const auto& shared = loop_.shared;
  const bool over = shared.cutting.load(std::memory_order_relaxed);
  return over || (idle_ && shared.closing.load(std::memory_order_relaxed)) ? Moment::min() : deadline_;
}

void Session::deadline_passed(Moment) {
  if (halt_ != nullptr) return halt_->call();
  timed_out_ = true;
  deadline_ = Moment::max();
  idle_ = false;
  boost::system::error_code error;
  socket_.cancel(error);
}

net::Awaitable<void> Session::run() {
  for (bool more = true; more;) {
    const auto served = co_await serve_one();
    more = served;
  }
}

/// Reads and answers one request; true if another may follow.
net::Awaitable<bool> Session::serve_one() {
  exchange::ClientRequest request;
  request.id = request.request_id = loop_.new_id();
  const auto head_read = co_await read_head(request);
  if (!head_read) co_return false;
  const auto body_read = co_await read_body(request);
  if (!body_read) co_return false;
  const auto again = co_await answer(request);
  co_return again;
}

/// Waits until bytes can be read, or the deadline has passed, or the connection is of no more use.
net::Awaitable<bool> Session::readable() {
  boost::system::error_code error;
  auto token = asio::redirect_error(net::use_awaitable, error);
  co_await socket_.async_wait(asio::socket_base::wait_read, token);
  // Bytes may have come in the very tick of the deadline: it has passed all the same, and there is no other.
  co_return !error && !timed_out_;
}

Session::Got Session::read_now(std::span<char>& bytes) {
  const auto buffer = loop_.read_buffer().first(bite);
  const auto read = loop_.clock.read(socket_.native_handle(), buffer);
  if (read.size < 0) return errno == EAGAIN || errno == EINTR ? Got::nothing : Got::end;
  bytes = buffer.first(static_cast<std::size_t>(read.size));
  last_arrival_ = read.at;
  return read.size == 0 ? Got::end : Got::bytes;
}

net::Awaitable<bool> Session::read_head(exchange::ClientRequest& request) {
  std::size_t seen = 0;
  last_arrival_ = Clock::now();  // Of what came while the answer before was under way.
  timed_out_ = false;
  idle_ = unread_.empty();
  deadline_ =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(idle_ ? limits_.client_idle : limits_.head_time);
  std::optional<std::size_t> length;
  for (;;) {
    length = http::head_length(unread_, seen);
    if (length || unread_.size() > limits_.request_head) break;
    seen = unread_.size();
    const auto ready = co_await readable();
    if (!ready) {
      if (!timed_out_ || unread_.empty()) co_return false;
      const auto refused = co_await refuse(request, 408, "the request head did not come in time", Limit::head_time);
      co_return refused;
    }
    std::span<char> bytes;
    const auto got = read_now(bytes);
    if (got == Got::end) co_return false;
    if (got == Got::nothing) continue;
    if (unread_.empty()) {
      idle_ = false;
      deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(limits_.head_time);
    }
    unread_.append(bytes.data(), bytes.size());
  }
  idle_ = false;
  deadline_ = Moment::max();
  if (!length || *length > limits_.request_head) {
    const bool long_line = unread_.find("\r\n") > http::max_request_line;
    const auto refusal = long_line ? http::refusal_of(http::HeadError::target_too_long)
                                   : http::Refusal{431, "the request head is larger than limits.request_head allows"};
    const auto refused = co_await refuse(request, refusal.status, refusal.sentence, Limit::request_head);
    co_return refused;
  }
  request.head_bytes.assign(unread_, 0, *length);
  unread_.erase(0, *length);
  auto head = http::parse_request_head(request.head_bytes);
  if (!head) {
    const auto refusal = http::refusal_of(head.error());
    const auto refused = co_await refuse(request, refusal.status, refusal.sentence, std::nullopt);
    co_return refused;
  }
  request.head = std::move(*head);
  request.client_id = http::valid_request_id(request.head["x-request-id"]).value_or("");
  if (!request.client_id.empty()) request.request_id = request.client_id;
  request.route = http::route_of(request.head.method, request.head.path, loop_.shared.settings.server.paths);
  co_return true;
}

net::Awaitable<bool> Session::read_body(exchange::ClientRequest& request) {
  const auto& head = request.head;
  const auto api = request.facts.api = metrics::wire::api_of(head.method, head.path);
  metrics::wire::RequestInspector inspector(api, head.path);
  http::BodyDecoder decoder(head.framing, head.content_length);
  bool too_large = head.framing == http::Framing::length && head.content_length > limits_.request_body;
  if (!too_large && head.expects_continue && !decoder.finished() && unread_.empty()) {
    std::string interim = "HTTP/1.1 100 Continue\r\n\r\n";
    const auto written = co_await write(std::move(interim));
    if (!written) co_return left_early(request);
  }
  if (head.framing == http::Framing::length && !too_large) request.body.reserve(head.content_length);
  std::string rest;
  rest.swap(unread_);
  std::span<char> bytes = rest;
  while (!too_large) {
    const auto decoded = decoder.decode(bytes);
    too_large = request.body.size() + decoded.payload.size() > limits_.request_body;
    if (too_large) break;
    request.body.append(decoded.payload.data(), decoded.payload.size());
    inspector.feed(decoded.payload);
    if (decoder.finished()) {
      unread_.assign(bytes.data() + decoded.consumed, bytes.size() - decoded.consumed);
      break;
    }
    if (decoder.failed()) {
      const auto refused = co_await refuse(request, 400, "the request's chunked body is malformed", std::nullopt);
      co_return refused;
    }
    for (bytes = {}; bytes.empty();) {
      deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(limits_.body_time);
      const auto ready = co_await readable();
      if (!ready) {
        if (!timed_out_) co_return left_early(request);
        const auto refused = co_await refuse(request, 408, "the request body stopped coming", Limit::body_time);
        co_return refused;
      }
      if (read_now(bytes) == Got::end) co_return left_early(request);
    }
  }
  deadline_ = Moment::max();
  if (too_large) {
    const auto refused = co_await refuse(request, 413, "the request body is larger than limits.request_body allows",
                                         Limit::request_body);
    co_return refused;
  }
  request.facts = inspector.finish();
  request.facts.inference = head.method == "POST";
  received(request);
  co_return true;
}

/// What weir answers itself.
net::Awaitable<bool> Session::answer_own(exchange::ClientRequest& request) {
  http::OwnAnswer own;
  auto outcome = Outcome::ok;
  if (request.route == http::Route::health) {
    own.body = "{\"status\":\"ok\"}\n";
  } else if (request.route == http::Route::models || request.route == http::Route::model) {
    auto answered = co_await answer_models(request);
    if (!answered) co_return left_early(request);
    own = std::move(*answered);
    if (own.error) outcome = own.status == 429 ? Outcome::rejected : Outcome::bad_request;
  } else {
    outcome = Outcome::bad_request;
    own = http::error_answer(
        404, "invalid_request_error", "not_found",
        "this path is not served: weir forwards the inference routes only, and those that server.paths names");
  }
  exchange::record_unassigned(loop_, request, outcome, own.status);
  const auto sent = co_await send_own(request, own, request.head.keep_alive);
  co_return sent;
}

/// Nothing, if the client left while replicas were asked for it.
net::Awaitable<std::optional<http::OwnAnswer>> Session::answer_models(exchange::ClientRequest& request) {
  fleet::Halt halt;
  halt_ = &halt;
  const Departure departure(loop_, socket_.native_handle(), halt);
  auto own = co_await loop_.shared.models.answer(request.head, request.route, halt);
  halt_ = nullptr;
  if (departure.seen()) co_return std::nullopt;
  co_return std::optional<http::OwnAnswer>(std::move(own));
}

net::Awaitable<bool> Session::answer(exchange::ClientRequest& request) {
  if (http::is_own(request.route)) {
    const auto again = co_await answer_own(request);
    co_return again;
  }
  exchange::ExchangeEnd end;
  {
    exchange::Exchange exchange(loop_, exchange::ClientSide{socket_.native_handle(), unread_}, request);
    end = co_await exchange.run();
  }
  if (end.own) {
    const auto sent = co_await send_own(request, *end.own, end.keep_alive);
    co_return sent;
  }
  if (end.kept) {
    auto bytes = std::move(*end.kept);
    const auto written = co_await write(std::move(bytes));
    co_return written&& end.keep_alive;
  }
  if (end.reset) {
    boost::system::error_code error;
    socket_.set_option(asio::socket_base::linger(true, 0), error);
    socket_.close(error);  // Asio's destructor would take the linger time back, and end the stream in good order.
  }
  co_return end.keep_alive;
}

/// A request counts from when its last byte arrived, not from when the loop came to read it: that wait is weir's.
void Session::received(exchange::ClientRequest& request) const {
  request.received = last_arrival_;
  request.time = std::chrono::system_clock::now() -
                 std::chrono::duration_cast<std::chrono::system_clock::duration>(Clock::now() - last_arrival_);
}

/// Counts a request whose client went before it was whole. Always false: the connection is over.
bool Session::left_early(exchange::ClientRequest& request) {
  received(request);
  exchange::record_unassigned(loop_, request, Outcome::client_abort, std::nullopt);
  return false;
}

/// Answers a request that weir does not take, and closes.
net::Awaitable<bool> Session::refuse(exchange::ClientRequest& request, unsigned status, std::string_view sentence,
                                     std::optional<Limit> limit) {
  if (limit) loop_.shard.limit_hits[static_cast<std::size_t>(*limit)].add();
  received(request);
  exchange::record_unassigned(loop_, request, Outcome::bad_request, status);
  const auto own =
      http::error_answer(status, status == 408 ? "timeout_error" : "invalid_request_error", "bad_request", sentence);
  co_await send_own(request, own, false);
  co_await linger();
  co_return false;
}

/// Returns whether the connection may go on.
net::Awaitable<bool> Session::send_own(const exchange::ClientRequest& request, const http::OwnAnswer& own,
                                       bool keep_alive) {
  keep_alive = keep_alive && !loop_.shared.draining.load(std::memory_order_relaxed);
  const auto cors = loop_.shared.cors.fields_for(request.head["origin"]);
  const http::OwnFraming framing{request.facts.api,
                                 request.head.http_1_1,
                                 keep_alive,
                                 request.head.method == "HEAD",
                                 request.request_id,
                                 request.id,
                                 cors};
  auto text = http::own_answer(own, framing);
  const auto written = co_await write(std::move(text));
  co_return written&& keep_alive;
}

net::Awaitable<bool> Session::write(std::string text) {
  boost::system::error_code error;
  deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(limits_.client_stall);
  auto token = asio::redirect_error(net::use_awaitable, error);
  const auto buffer = asio::buffer(text);
  co_await asio::async_write(socket_, buffer, token);
  deadline_ = Moment::max();
  co_return !error;
}

net::Awaitable<void> Session::linger() {
  boost::system::error_code error;
  socket_.shutdown(asio::socket_base::shutdown_send, error);
  timed_out_ = false;  // After a 408 it was the request that timed out.
  deadline_ = Clock::now() + linger_time;
  for (std::size_t dropped = 0; dropped < linger_bytes;) {
    const auto ready = co_await readable();
    if (!ready) break;
    std::span<char> bytes;
    if (read_now(bytes) == Got::end) break;
    dropped += bytes.size();
  }
}

net::Awaitable<void> run_session(std::unique_ptr<Session> session) { co_await session->run(); }

}  // namespace

void start_session(exchange::Loop& loop, net::UniqueFd client, bool ipv6) {
  auto session = std::make_unique<Session>(loop, std::move(client), ipv6);
  asio::co_spawn(loop.context, run_session(std::move(session)), asio::detached);
}

}  // namespace weir::proxy::serve

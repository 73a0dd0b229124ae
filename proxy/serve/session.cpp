#include "proxy/serve/session.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cerrno>
#include <list>

#include "metrics/ticks.hpp"
#include "metrics/wire/request/inspector.hpp"
#include "proxy/exchange/request_records.hpp"
#include "proxy/fleet/model_directory.hpp"
#include "proxy/http/own_answer.hpp"
#include "proxy/http/request_id.hpp"
#include "proxy/net/channel_wait.hpp"
#include "proxy/net/socket_channel.hpp"

namespace weir::proxy::serve {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using metrics::Moment;
using metrics::Outcome;
using metrics::series::Limit;

/// So much of a refused request's rest is read and dropped, so that closing does not reset the answer away.
constexpr std::size_t linger_bytes = 1024 * 1024;
constexpr std::chrono::seconds linger_time{1};
/// One handler reads and inspects so much of a request before tokens get their turn; that takes some tens of
/// microseconds.
constexpr std::size_t most_read_at_once = 16 * 1024;

/// Keeps a request among those that run on the loop.
class Running {
 public:
  Running(exchange::Loop& loop, Moment received) : all_(loop.running), place_(all_.insert(all_.end(), received)) {}
  ~Running() { all_.erase(place_); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  std::list<Moment>& all_;
  const std::list<Moment>::iterator place_;
};

/// Ends the questions to replicas when the client leaves.
class HaltOnLeave final : exchange::ClientWatch::Listener {
 public:
  HaltOnLeave(exchange::ClientWatch& watch, fleet::Halt& halt) : watch_(watch), halt_(halt) { watch_.listen(this); }
  ~HaltOnLeave() { watch_.listen(nullptr); }
  HaltOnLeave(const HaltOnLeave&) = delete;
  HaltOnLeave& operator=(const HaltOnLeave&) = delete;

 private:
  void client_gone() override { halt_.call(); }
  void client_writable() override {}

  exchange::ClientWatch& watch_;
  fleet::Halt& halt_;
};

class Session final : net::Timed {
 public:
  Session(exchange::Loop& loop, std::unique_ptr<net::Channel> client, const net::PeerAddress& address);
  ~Session();
  net::Awaitable<void> run();

 private:
  enum class ReadResult : unsigned char { bytes, nothing, end };

  net::Awaitable<bool> serve_one();
  void take_world(exchange::ClientRequest& request);
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
  net::Awaitable<bool> wait_for(std::uint32_t events);
  net::Awaitable<bool> readable();
  ReadResult read_now(std::span<char>& bytes);
  net::Awaitable<void> linger();

  Moment deadline() const override;
  void deadline_passed(Moment now) override;

  exchange::Loop& loop_;
  std::shared_ptr<const fleet::World> world_;  ///< It is that of the current request, from its first byte on.
  const std::unique_ptr<net::Channel> client_;
  const net::PeerAddress address_;
  net::ChannelWait* waiting_ = nullptr;  ///< It is set while this session waits for its client.
  std::string unread_;
  Moment last_arrival_{};  ///< The kernel received the last read's bytes then.
  Moment deadline_ = Moment::max();
  bool idle_ = true, timed_out_ = false;
  bool has_read_ = false;        ///< It has read in the current turn of the loop.
  fleet::Halt* halt_ = nullptr;  ///< It is set while replicas are asked for the client.
};

Session::Session(exchange::Loop& loop, std::unique_ptr<net::Channel> client, const net::PeerAddress& address)
    : loop_(loop), client_(std::move(client)), address_(address) {
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
  if (waiting_ != nullptr) waiting_->cancel();
}

net::Awaitable<void> Session::run() {
  for (bool more = true; more;) {
    const auto served = co_await serve_one();
    more = served;
  }
}

/// Reads and answers one request. Returns true if another may follow.
net::Awaitable<bool> Session::serve_one() {
  exchange::ClientRequest request;
  request.id = request.request_id = loop_.new_id();
  request.address = address_;
  const auto head_read = co_await read_head(request);
  if (!head_read) co_return false;
  const auto body_read = co_await read_body(request);
  if (!body_read) co_return false;
  const auto again = co_await answer(request);
  co_return again;
}

/// Waits for the client to be readable or writable, by epoll's events. Returns false once the deadline has passed.
net::Awaitable<bool> Session::wait_for(std::uint32_t events) {
  net::ChannelWait wait(*client_);
  waiting_ = &wait;
  co_await wait.wait(events, net::use_awaitable);
  waiting_ = nullptr;
  has_read_ = false;
  // Bytes may have come in the very tick of the deadline. It has passed all the same, and no second one is set.
  co_return !timed_out_;
}

/// Waits until bytes can be read, or the deadline has passed.
net::Awaitable<bool> Session::readable() {
  if (timed_out_) co_return false;
  if (client_->may_read()) {
    if (!has_read_) co_return true;
    // More of a long request is there. Tokens have their turn first.
    client_->again(EPOLLIN);
  }
  co_return co_await wait_for(EPOLLIN);
}

Session::ReadResult Session::read_now(std::span<char>& bytes) {
  const auto buffer = loop_.read_buffer().first(most_read_at_once);
  const auto read = client_->read(buffer);
  has_read_ = true;
  if (read.size < 0)
    return (errno == EAGAIN || errno == EINTR) && !client_->hung_up() ? ReadResult::nothing : ReadResult::end;
  bytes = buffer.first(static_cast<std::size_t>(read.size));
  last_arrival_ = read.at;
  return read.size == 0 ? ReadResult::end : ReadResult::bytes;
}

/// A connection that waits for a request holds no world: it would be an old one when the request comes.
void Session::take_world(exchange::ClientRequest& request) { request.world = world_ = loop_.shared.fleet.world(); }

net::Awaitable<bool> Session::read_head(exchange::ClientRequest& request) {
  take_world(request);
  std::size_t seen = 0;
  last_arrival_ = Clock::now();  // These bytes came while the previous answer was sent.
  timed_out_ = false;
  idle_ = unread_.empty();
  deadline_ =
      Clock::now() + metrics::ticks(idle_ ? world_->settings.limits.client_idle : world_->settings.limits.head_time);
  if (idle_) world_ = request.world = nullptr;
  std::optional<std::size_t> length;
  for (;;) {
    length = http::head_length(unread_, seen);
    if (length || (world_ && unread_.size() > world_->settings.limits.request_head)) break;
    seen = unread_.size();
    const auto ready = co_await readable();
    if (!ready && !timed_out_) co_return false;
    if (!ready && !unread_.empty()) {
      const auto refused = co_await refuse(request, 408, "the request head did not come in time", Limit::head_time);
      co_return refused;
    }
    std::span<char> bytes;
    const auto result = read_now(bytes);
    if (result == ReadResult::end) co_return false;
    // A request that came in the very moment in which the idle connection was to be closed is answered.
    if (!ready && result == ReadResult::nothing) co_return false;
    timed_out_ = false;
    if (result == ReadResult::nothing) continue;
    if (unread_.empty()) {
      take_world(request);
      idle_ = false;
      deadline_ = Clock::now() + metrics::ticks(world_->settings.limits.head_time);
    }
    unread_.append(bytes.data(), bytes.size());
  }
  idle_ = false;
  deadline_ = Moment::max();
  if (!length || *length > world_->settings.limits.request_head) {
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
  request.route = http::route_of(request.head.method, request.head.path, world_->settings.server.paths);
  co_return true;
}

net::Awaitable<bool> Session::read_body(exchange::ClientRequest& request) {
  const auto& head = request.head;
  const auto api = request.facts.api = metrics::wire::api_of(head.method, head.path);
  metrics::wire::RequestInspector inspector(api, head.method, head.path, loop_.shared.conversation_key);
  http::BodyDecoder decoder(head.framing, head.content_length);
  bool too_large = head.framing == http::Framing::length && head.content_length > world_->settings.limits.request_body;
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
    too_large = request.body.size() + decoded.payload.size() > world_->settings.limits.request_body;
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
      deadline_ = Clock::now() + metrics::ticks(world_->settings.limits.body_time);
      const auto ready = co_await readable();
      if (!ready) {
        if (!timed_out_) co_return left_early(request);
        const auto refused = co_await refuse(request, 408, "the request body stopped coming", Limit::body_time);
        co_return refused;
      }
      if (read_now(bytes) == ReadResult::end) co_return left_early(request);
    }
  }
  deadline_ = Moment::max();
  if (too_large) {
    const auto refused = co_await refuse(request, 413, "the request body is larger than limits.request_body allows",
                                         Limit::request_body);
    co_return refused;
  }
  request.facts = inspector.finish();
  received(request);
  co_return true;
}

/// Answers what weir answers itself.
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

/// Returns nothing if the client left while replicas were asked for it.
net::Awaitable<std::optional<http::OwnAnswer>> Session::answer_models(exchange::ClientRequest& request) {
  fleet::Halt halt;
  halt_ = &halt;
  exchange::ClientWatch watch(*client_, unread_);
  if (watch.gone()) halt.call();
  const HaltOnLeave on_leave(watch, halt);
  auto own = co_await loop_.shared.models.answer(request.head, request.route, halt);
  halt_ = nullptr;
  if (watch.gone()) co_return std::nullopt;
  co_return std::optional<http::OwnAnswer>(std::move(own));
}

net::Awaitable<bool> Session::answer(exchange::ClientRequest& request) {
  if (http::is_own(request.route)) {
    const auto again = co_await answer_own(request);
    co_return again;
  }
  exchange::ExchangeEnd end;
  {
    const Running running(loop_, request.received);
    exchange::Exchange exchange(loop_, *client_, unread_, request);
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
    client_->reset_on_close();
  }
  co_return end.keep_alive;
}

/// A request counts from when its last byte arrived, not from when the loop came to read it: that wait is weir's.
void Session::received(exchange::ClientRequest& request) const {
  request.received = last_arrival_;
  request.time = std::chrono::system_clock::now() -
                 std::chrono::duration_cast<std::chrono::system_clock::duration>(Clock::now() - last_arrival_);
}

/// Counts a request whose client went before it was whole. Returns false always, since the connection has ended.
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

/// Sends an answer of weir's own. Returns whether the connection may go on.
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
  deadline_ = Clock::now() + metrics::ticks(world_->settings.limits.client_stall);
  timed_out_ = false;
  const std::string_view whole = text;
  std::size_t written = 0;
  while (written < text.size()) {
    const auto size = client_->write({&whole, 1}, written);
    if (size > 0) {
      written += static_cast<std::size_t>(size);
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) break;
    const auto ready = co_await wait_for(EPOLLOUT);
    if (!ready || client_->hung_up()) break;
  }
  deadline_ = Moment::max();
  co_return written == text.size();
}

net::Awaitable<void> Session::linger() {
  client_->end_writing();
  deadline_ = Clock::now() + linger_time;
  for (std::size_t dropped = 0; dropped < linger_bytes;) {
    const auto ready = co_await readable();
    if (!ready) break;
    std::span<char> bytes;
    if (read_now(bytes) == ReadResult::end) break;
    dropped += bytes.size();
  }
}

net::Awaitable<void> run_session(std::unique_ptr<Session> session) { co_await session->run(); }

}  // namespace

/// The kernel gives a client up later than weir does: the kernel's limit also
/// counts a closed window, and only weir's own limit is counted.
void set_client_options(int fd, const config::Limits& limits) {
  const int on = 1, seconds = 30, interval = 10, probes = 3;
  const int stall = static_cast<int>((limits.client_stall.count() + 5) * 1000);
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &stall, sizeof stall);
}

void start_session(exchange::Loop& loop, net::UniqueFd client) {
  set_client_options(client.get(), loop.shared.fleet.world()->settings.limits);
  const auto address = net::peer_address(client.get());
  start_session(loop, std::make_unique<net::SocketChannel>(loop.poller, loop.clock, std::move(client)), address);
}

void start_session(exchange::Loop& loop, std::unique_ptr<net::Channel> client, const net::PeerAddress& address) {
  auto session = std::make_unique<Session>(loop, std::move(client), address);
  asio::co_spawn(loop.context, run_session(std::move(session)), asio::detached);
}

}  // namespace weir::proxy::serve

#include "proxy/serve/session.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <exception>
#include <string_view>
#include <utility>

#include "config/address.hpp"
#include "proxy/exchange/client_request.hpp"
#include "proxy/fleet/keep_running.hpp"
#include "proxy/fleet/model_directory.hpp"
#include "proxy/http/credential.hpp"
#include "proxy/http/writing.hpp"
#include "proxy/net/channel.hpp"
#include "proxy/serve/request_reading.hpp"

namespace weir::proxy::serve {
namespace {

namespace asio = boost::asio;
using metrics::Moment;
using metrics::Outcome;
using metrics::series::Limit;

/// Ends the questions to replicas when the client leaves, or weir cuts all that is under way.
class HaltWithClient final : exchange::ClientWatch::Listener {
 public:
  HaltWithClient(ClientConnection& client, exchange::ClientWatch& watch, fleet::Halt& halt)
      : client_(client), watch_(watch), halt_(halt) {
    if (watch.gone()) halt.call();
    client.halt_at_deadline(&halt);
    watch.listen(this);
  }
  ~HaltWithClient() {
    watch_.listen(nullptr);
    client_.halt_at_deadline(nullptr);
  }
  HaltWithClient(const HaltWithClient&) = delete;
  HaltWithClient& operator=(const HaltWithClient&) = delete;

 private:
  void client_gone() override { halt_.call(); }
  void client_writable() override {}

  ClientConnection& client_;
  exchange::ClientWatch& watch_;
  fleet::Halt& halt_;
};

class Session {
 public:
  Session(exchange::Loop& loop, std::unique_ptr<net::Channel> channel, NewClient client)
      : loop_(loop),
        client_(loop, std::move(channel)),
        address_(client.address),
        address_text_(http::in_forwarded_for(client.address)),
        place_(std::move(client.place)),
        count_(std::move(client.count)) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  net::Awaitable<void> run();

 private:
  net::Awaitable<std::optional<bool>> read_one(exchange::ClientRequest& request);
  // A coroutine that inlines it keeps a place for each of its answers.
  [[gnu::noinline]] std::unique_ptr<http::OwnAnswer> refusal_of_head(exchange::ClientRequest& request);
  net::Awaitable<bool> answer_own(exchange::ClientRequest& request);
  net::Awaitable<std::unique_ptr<http::OwnAnswer>> answer_models(const exchange::ClientRequest& request);
  net::Awaitable<bool> answer(exchange::ClientRequest& request);
  std::unique_ptr<http::OwnAnswer> refusal_of_key(exchange::ClientRequest& request, bool has_slot);
  net::Awaitable<bool> refuse(exchange::ClientRequest& request, std::unique_ptr<http::OwnAnswer> own);
  net::Awaitable<void> break_down(exchange::ClientRequest& request, std::exception_ptr failure);
  void record(exchange::ClientRequest& request, Outcome outcome, std::optional<unsigned> status);
  net::Awaitable<bool> send_own(exchange::ClientRequest& request, const http::OwnAnswer& own, bool keep_alive);

  exchange::Loop& loop_;
  ClientConnection client_;
  const net::PeerAddress address_;
  const std::string address_text_;
  const net::AddressCounts::CountGuard place_;
  bool answered_ = false;  ///< The last answer has gone out whole, and the connection is to be closed behind it.
  bool refused_ = false;   ///< That answer refused a request of which more may be coming.
  const ConnectionCount count_;
};

std::unique_ptr<http::OwnAnswer> on_heap(http::OwnAnswer own) {
  return std::make_unique<http::OwnAnswer>(std::move(own));
}

Outcome outcome_of(const http::OwnAnswer& own) {
  if (!own.error) return Outcome::ok;
  return own.status == 429 || own.status == 503 ? Outcome::rejected : Outcome::bad_request;
}

net::Awaitable<void> Session::run() {
  for (bool more = true; more;) {
    {
      exchange::ClientRequest request;
      std::exception_ptr failure;
      try {
        const auto read = co_await read_one(request);
        more = read ? *read : co_await answer(request);
      } catch (...) {
        failure = std::current_exception();
      }
      if (failure) {
        more = false;
        co_await break_down(request, failure);
      }
    }
    // Requests that came together have a turn of the loop each: tokens go between them.
    if (more && !client_.unread().empty()) co_await client_.another_turn();
  }
  const bool still_sends = !client_.unread().empty() || !client_.channel().is_quiet();
  if (refused_ || (answered_ && still_sends)) co_await client_.linger();
}

/// Reads one request, and answers it if no replica is to have it. Returns nothing if one is; else whether another
/// request may follow. The memory that reading takes is given back before a replica is asked.
net::Awaitable<std::optional<bool>> Session::read_one(exchange::ClientRequest& request) {
  using End = RequestReading::End;
  request.ids.weir = loop_.new_id();
  request.client.address = request.client.peer = address_;
  request.client.peer_text = address_text_;
  request.message.budget_hold = net::SharedBudgetHold(loop_.shared.buffers);
  RequestReading reading(loop_, client_, request);
  auto end = co_await reading.head();
  if (end == End::whole) {
    if (auto refusal = refusal_of_head(request)) co_return co_await refuse(request, std::move(refusal));
    if (http::is_own(request.message.route)) co_return co_await answer_own(request);
    end = co_await reading.body();
  }
  if (end == End::refused) co_return co_await refuse(request, reading.take_refusal());
  if (end == End::closed) co_return false;
  request.message.received_at(client_.last_arrival);
  if (end == End::whole) co_return std::nullopt;
  record(request, Outcome::client_abort, std::nullopt);
  co_return false;
}

/// Returns the answer to a client that may not enter, by its address or its key; null if it may. None of the body has
/// been read.
std::unique_ptr<http::OwnAnswer> Session::refusal_of_head(exchange::ClientRequest& request) {
  const auto& snapshot = *request.snapshot;
  const auto& head = request.message.head;
  if (!identify_client(loop_.shared, snapshot.settings, head, request.client)) {
    loop_.shard.limit_hits.add(Limit::connections_per_address);
    return on_heap(http::address_busy_answer());
  }
  if (auto ambiguous = two_keys(snapshot.keys.get(), head)) return on_heap(std::move(*ambiguous));
  const auto denied = find_key(snapshot.keys, request.message, request.client, request.ids);
  if (!denied) return nullptr;
  loop_.shard.denied.add(*denied);
  return on_heap(denied_answer(*denied));
}

/// Returns weir's answer to a request that asks no replica.
http::OwnAnswer own_answer(exchange::ClientRequest& request) {
  http::OwnAnswer own;
  switch (request.message.route) {
    case http::Route::health:
      own.body = "{\"status\":\"ok\"}\n";
      return own;
    case http::Route::server:
      own.status = 204;
      own.tells_methods = true;
      return own;
    case http::Route::preflight:
      return http::preflight_answer(request.snapshot->settings.server.cors_origins, request.message.head,
                                    *request.client.cors);
    default:
      return http::error_answer(
          404, "invalid_request_error", "not_found",
          "this path is not served: weir forwards the inference routes only, and those that server.paths names");
  }
}

/// Answers a request that asks no replica. Nobody needs its body, so weir waits for none and pays for none: a body that
/// has not come with the head ends the connection.
net::Awaitable<bool> Session::answer_own(exchange::ClientRequest& request) {
  auto& message = request.message;
  const bool has_no_more = client_.drop_body(message.head);
  const bool keep_alive = message.head.keep_alive && has_no_more;
  message.budget_hold.set(message.head_bytes.capacity());
  message.received_at(client_.last_arrival);
  const bool of_models = message.route == http::Route::models || message.route == http::Route::model;
  const auto own = of_models ? co_await answer_models(request) : on_heap(own_answer(request));
  record(request, own ? outcome_of(*own) : Outcome::client_abort, own ? std::optional(own->status) : std::nullopt);
  if (!own) co_return false;
  const bool goes_on = co_await send_own(request, *own, keep_alive);
  refused_ = answered_ && !has_no_more;
  co_return goes_on;
}

/// Returns null if the client left while replicas were asked for it.
net::Awaitable<std::unique_ptr<http::OwnAnswer>> Session::answer_models(const exchange::ClientRequest& request) {
  const auto& message = request.message;
  fleet::Halt halt;
  exchange::ClientWatch watch(client_.channel(), client_.unread(), request.snapshot->settings.server.half_close);
  const HaltWithClient halts(client_, watch, halt);
  auto own = co_await loop_.shared.models.answer(message.head, message.route, halt, request.client.key.get());
  co_return watch.gone() ? nullptr : on_heap(std::move(own));
}

/// Returns null if no pool has the request's model, or if a request for an answer names none where each pool has its
/// own. Of other requests nothing tells whom they are for.
// A coroutine that inlines it keeps a place for what it looks up.
[[gnu::noinline]] const fleet::PoolRuntime* pool_of(const exchange::ClientRequest& request, balancer::Homes& homes) {
  const auto& model = request.message.facts->model;
  if (model.empty() && request.snapshot->pools.size() > 1)
    if (const auto* const pool = exchange::pool_of_state(*request.snapshot, homes, request.message)) return pool;
  const bool needs_model = request.message.route == http::Route::inference && request.snapshot->needs_model();
  return model.empty() && needs_model ? nullptr : request.snapshot->pool_for(model);
}

net::Awaitable<bool> Session::answer(exchange::ClientRequest& request) {
  std::optional<keys::KeySlot> slot(request.client.key.get());
  exchange::ExchangeEnd end;
  if (auto refusal = refusal_of_key(request, slot->got())) {
    end.own = std::move(refusal);
    end.keep_alive = request.message.head.keep_alive;
  } else if (const auto* const pool = pool_of(request, loop_.shared.fleet.homes()); pool == nullptr) {
    end = exchange::end_without_pool(loop_, request);
  } else {
    exchange::InFlight in_flight(request.message.received);
    loop_.running.push_back(in_flight);
    const auto exchange =
        std::make_unique<exchange::Exchange>(loop_, client_.channel(), client_.unread(), request, *pool);
    co_await exchange->run();
    end = exchange->conclude();
  }
  slot.reset();  // A client that has read its answer may send its next request, on another connection, too.
  if (end.own) co_return co_await send_own(request, *end.own, end.keep_alive);
  if (end.kept) {
    request.progress.answered = true;
    answered_ = co_await client_.write(std::move(*end.kept), request.snapshot->settings);
    co_return answered_&& end.keep_alive;
  }
  if (end.reset) client_.channel().reset_on_close();
  answered_ = !end.reset;
  co_return end.keep_alive;
}

/// Returns the answer to a request that its key may not send, or not now, and counts it; null if it may. The request is
/// whole.
std::unique_ptr<http::OwnAnswer> Session::refusal_of_key(exchange::ClientRequest& request, bool has_slot) {
  const auto* const key = request.client.key.get();
  auto refusal = model_refusal(key, request.message.head, *request.message.facts);
  if (!refusal && has_slot) return nullptr;
  if (refusal) {
    loop_.shard.denied.add(metrics::series::Denied::model);
  } else {
    loop_.shard.limit_hits.add(Limit::key);
    refusal = key_busy_answer(*key, std::chrono::milliseconds(std::lround(loop_.random_from(1000, 1500))));
  }
  record(request, outcome_of(*refusal), refusal->status);
  return on_heap(std::move(*refusal));
}

/// Answers a request that weir does not take, and closes: the rest of the request is not read.
net::Awaitable<bool> Session::refuse(exchange::ClientRequest& request, std::unique_ptr<http::OwnAnswer> own) {
  record(request, outcome_of(*own), own->status);
  request.message.give_up();
  co_await send_own(request, *own, false);
  refused_ = answered_;
  co_return false;
}

/// Ends a request that weir itself failed. Whatever it held has been given back; it gets its count, its line in the log
/// and, if none has begun, its answer.
net::Awaitable<void> Session::break_down(exchange::ClientRequest& request, std::exception_ptr failure) {
  auto& errors = loop_.shared.exposition.internal_errors;
  fleet::note_failure(errors, metrics::series::Part::session, failure, "its client is told, or cut off");
  const bool begun = request.snapshot != nullptr;  // A connection that waits for a request has none.
  const bool answers = begun && !request.progress.answered;
  if (begun && !request.progress.recorded)
    record(request, Outcome::rejected, answers ? std::optional(500u) : std::nullopt);
  request.message.give_up();
  client_.channel().watch(nullptr);
  if (!answers) {
    client_.channel().reset_on_close();
    co_return;
  }
  co_await send_own(request, http::broken_down_answer(), false);
  refused_ = answered_;
}

/// Counts and logs a request that no replica gets.
void Session::record(exchange::ClientRequest& request, Outcome outcome, std::optional<unsigned> status) {
  if (request.message.received == Moment()) request.message.received_at(client_.last_arrival);
  exchange::record_unassigned(loop_, request, outcome, status);
}

/// Sends an answer of weir's own. Returns whether the connection may go on.
net::Awaitable<bool> Session::send_own(exchange::ClientRequest& request, const http::OwnAnswer& own, bool keep_alive) {
  const auto& head = request.message.head;
  keep_alive = keep_alive && !loop_.shared.draining.load(std::memory_order_relaxed);
  const http::OwnFraming framing{request.message.api,
                                 head.http_1_1,
                                 keep_alive,
                                 head.method == "HEAD",
                                 request.ids.shown(),
                                 request.ids.weir,
                                 request.client.cors ? std::string_view(*request.client.cors) : ""};
  request.progress.answered = true;
  answered_ = co_await client_.write(http::own_answer(own, framing), request.snapshot->settings);
  co_return answered_&& keep_alive;
}

net::Awaitable<void> run_session(std::unique_ptr<Session> session) { co_await session->run(); }

}  // namespace

/// Keepalive probes ask a silent client often enough for has_vanished(). The kernel itself gives up later than weir
/// does, and only a client that is silent: TCP_USER_TIMEOUT would also end one that reads slowly through a small
/// window, because that looks closed to the kernel until all of a segment fits.
void set_client_options(const NewClient& client) {
  if (client.address == net::PeerAddress{}) return;
  const int fd = client.socket.get();
  const int on = 1, seconds = static_cast<int>(net::most_silence.count() / 2), interval = 5, probes = 9;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

void start_session(exchange::Loop& loop, NewClient client) {
  set_client_options(client);
  auto channel = std::make_unique<net::SocketChannel>(loop.poller, loop.clock, std::move(client.socket));
  start_session(loop, std::move(channel), std::move(client));
}

void start_session(exchange::Loop& loop, std::unique_ptr<net::Channel> channel, NewClient client) {
  auto session = std::make_unique<Session>(loop, std::move(channel), std::move(client));
  const fleet::Unawaited unawaited(loop.shared.exposition.internal_errors, metrics::series::Part::session,
                                   "its connection is closed");
  asio::co_spawn(loop.context, run_session(std::move(session)), unawaited);
}

namespace {

constexpr std::chrono::seconds longest{2};

constexpr std::string_view full =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 5\r\nConnection: close\r\n\r\n";
/// A record with the alert internal_error (RFC 8446, 5.1 and 6.2). Before a handshake it is in the clear.
constexpr std::string_view alert("\x15\x03\x01\x00\x02\x02\x50", 7);

}  // namespace

/// A client that was told, until it closes.
class RejectedClients::Leaving : public std::enable_shared_from_this<Leaving> {
 public:
  Leaving(boost::asio::io_context& context, net::UniqueFd client, std::shared_ptr<Clients> clients)
      : socket_(context, client.release()), timer_(context, longest), clients_(std::move(clients)) {}
  ~Leaving() { leave(); }
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;

  void start() {
    place_ = clients_->insert(clients_->end(), weak_from_this());
    timer_.async_wait([self = shared_from_this()](boost::system::error_code) {
      boost::system::error_code closed;
      self->socket_.cancel(closed);
    });
    await();
  }
  /// Makes room for another one. What has come by now is read first, since closing over it would be a reset.
  void end() {
    drop();
    leave();
    timer_.cancel();
    socket_.close();
  }

 private:
  void leave() {
    if (place_ != clients_->end()) clients_->erase(std::exchange(place_, clients_->end()));
  }
  void await() {
    socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       [self = shared_from_this()](boost::system::error_code error) {
                         if (error || !self->drop()) return void(self->timer_.cancel());
                         self->await();
                       });
  }

  /// Reads and drops what is there. Returns false once the client has closed, or has sent too much.
  bool drop() {
    std::array<char, 64 * 1024> bytes;
    const auto size = ::recv(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    dropped_ += static_cast<std::size_t>(size);
    return size > 0 && dropped_ <= RejectedClients::most_dropped;
  }

  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer timer_;
  std::size_t dropped_ = 0;
  const std::shared_ptr<Clients> clients_;
  Clients::iterator place_ = clients_->end();
};

void RejectedClients::add(net::UniqueFd client, Speaks speaks) {
  const auto told = speaks == Speaks::tls ? alert : full;
  static_cast<void>(::send(client.get(), told.data(), told.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  ::shutdown(client.get(), SHUT_WR);
  if (clients_->size() >= most)
    if (const auto oldest = clients_->front().lock()) oldest->end();
  std::make_shared<Leaving>(context_, std::move(client), clients_)->start();
}

bool identify_client(exchange::Shared& shared, const config::Settings& settings, const http::RequestHead& head,
                     exchange::ClientIdentity& client) {
  const auto& server = settings.server;
  if (!server.cors_origins.empty()) client.cors = http::cors_fields(server.cors_origins, head[http::FieldName::origin]);
  client.through_proxy = config::contains(server.trusted_proxies, client.peer);
  if (!client.through_proxy) return true;
  client.address = http::client_address(client.peer, head, server.trusted_proxies);
  if (config::contains(server.trusted_proxies, client.address)) return true;
  auto guard = shared.addresses.connections.take(client.address, settings.limits.connections_per_address);
  if (guard) client.count_guard = std::move(*guard);
  return guard.has_value();
}

}  // namespace weir::proxy::serve

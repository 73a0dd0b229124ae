#include "proxy/serve/session.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <cmath>
#include <exception>
#include <list>
#include <new>

#include "proxy/exchange/failure_answers.hpp"
#include "proxy/exchange/request_records.hpp"
#include "proxy/fleet/keep_running.hpp"
#include "proxy/fleet/model_directory.hpp"
#include "proxy/http/cors.hpp"
#include "proxy/http/own_answer.hpp"
#include "proxy/net/socket_channel.hpp"
#include "proxy/net/vanished.hpp"
#include "proxy/serve/key_check.hpp"
#include "proxy/serve/request_reading.hpp"
#include "proxy/serve/who_asks.hpp"

namespace weir::proxy::serve {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using metrics::Moment;
using metrics::Outcome;

/// Keeps a request among those that run on the loop.
class InFlightMark {
 public:
  InFlightMark(exchange::Loop& loop, Moment received) : all_(loop.running), place_(all_.insert(all_.end(), received)) {}
  ~InFlightMark() { all_.erase(place_); }
  InFlightMark(const InFlightMark&) = delete;
  InFlightMark& operator=(const InFlightMark&) = delete;

 private:
  std::list<Moment>& all_;
  const std::list<Moment>::iterator place_;
};

bool is_want_of_memory(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::bad_alloc&) {
    return true;
  } catch (...) {
    return false;
  }
}

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

/// Ends them when weir cuts all that is under way, too.
class HaltAtDeadline {
 public:
  HaltAtDeadline(ClientConnection& client, fleet::Halt& halt) : client_(client) { client_.halt_at_deadline(&halt); }
  ~HaltAtDeadline() { client_.halt_at_deadline(nullptr); }
  HaltAtDeadline(const HaltAtDeadline&) = delete;
  HaltAtDeadline& operator=(const HaltAtDeadline&) = delete;

 private:
  ClientConnection& client_;
};

/// A connection that counts for its loop and for weir, until this ends. Whoever placed it has counted it.
class Counted {
 public:
  explicit Counted(exchange::Loop& loop) : loop_(&loop) {}
  Counted(Counted&& other) noexcept : loop_(std::exchange(other.loop_, nullptr)) {}
  Counted& operator=(Counted&&) = delete;
  ~Counted() {
    if (loop_ == nullptr) return;
    loop_->connections.fetch_sub(1, std::memory_order_relaxed);
    loop_->shared.connections.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  exchange::Loop* loop_;
};

class Session {
 public:
  Session(exchange::Loop& loop, std::unique_ptr<net::Channel> client, const net::PeerAddress& address,
          net::AddressCounts::CountGuard place, Counted counted)
      : loop_(loop),
        client_(loop, std::move(client)),
        address_(address),
        place_(std::move(place)),
        counted_(std::move(counted)) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  net::Awaitable<void> run();

 private:
  net::Awaitable<std::optional<bool>> read_one(exchange::ClientRequest& request);
  net::Awaitable<void> break_down(exchange::ClientRequest& request, std::exception_ptr failure);
  net::Awaitable<bool> not_read(exchange::ClientRequest& request, RequestReading::End end,
                                const RequestRefusal& refusal);
  net::Awaitable<bool> answer(exchange::ClientRequest& request);
  net::Awaitable<bool> answer_own(exchange::ClientRequest& request);
  net::Awaitable<std::optional<http::OwnAnswer>> answer_models(exchange::ClientRequest& request);
  net::Awaitable<bool> refuse(exchange::ClientRequest& request, const RequestRefusal& refusal);
  net::Awaitable<bool> stop(exchange::ClientRequest& request);
  net::Awaitable<bool> refuse_address(exchange::ClientRequest& request);
  net::Awaitable<bool> deny(exchange::ClientRequest& request, metrics::series::Denied why);
  std::unique_ptr<http::OwnAnswer> refusal_of_key(exchange::ClientRequest& request, const keys::KeySlot& place);
  void received(exchange::ClientRequest& request) const;
  bool left_early(exchange::ClientRequest& request);
  net::Awaitable<bool> send_own(exchange::ClientRequest& request, const http::OwnAnswer& own, bool keep_alive);

  exchange::Loop& loop_;
  ClientConnection client_;
  const net::PeerAddress address_;
  const net::AddressCounts::CountGuard place_;
  bool answered_ = false;  ///< The last answer has gone out whole, and the connection is to be closed behind it.
  bool refused_ = false;   ///< That answer refused a request of which more may be coming.
  const Counted counted_;
};

net::Awaitable<void> Session::run() {
  for (bool more = true; more;) {
    {
      exchange::ClientRequest request;
      std::exception_ptr failure;
      try {
        const auto read = co_await read_one(request);
        if (read) {
          more = *read;
        } else {
          const auto answered = co_await answer(request);
          more = answered;
        }
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

/// Reads one request, and answers it if no replica is to have it. Returns nothing if one is; else whether another request
/// may follow. What reading takes is given back before a replica is asked.
net::Awaitable<std::optional<bool>> Session::read_one(exchange::ClientRequest& request) {
  request.id = request.request_id = loop_.new_id();
  request.address = request.peer = address_;
  request.budget_hold = net::SharedBudgetHold(loop_.shared.buffers);
  RequestReading reading(loop_, client_, request);
  auto end = co_await reading.head();
  if (end == RequestReading::End::whole) {
    take_out_keys(request);
    if (!learn_who_asks(loop_.shared, request)) co_return co_await refuse_address(request);
    if (const auto ambiguous = two_keys(request)) co_return co_await refuse(request, *ambiguous);
    if (const auto why = find_key(request)) co_return co_await deny(request, *why);
    if (http::is_own(request.route)) co_return co_await answer_own(request);
    const auto body_end = co_await reading.body();
    end = body_end;
  }
  if (end != RequestReading::End::whole) co_return co_await not_read(request, end, reading.refusal());
  received(request);
  co_return std::nullopt;
}

/// Ends a request that weir itself failed, most likely for want of memory. Whatever it held has been given back; it
/// gets its count, its line in the log and, if none has begun, its answer.
net::Awaitable<void> Session::break_down(exchange::ClientRequest& request, std::exception_ptr failure) {
  auto& errors = loop_.shared.exposition.internal_errors;
  fleet::note_failure(errors, metrics::series::Part::session, failure, "its client is told, or cut off");
  const bool no_memory = is_want_of_memory(failure);
  const bool begun = request.snapshot != nullptr;  // A connection that waits for a request has none.
  const bool answers = begun && !request.answered;
  if (begun && !request.recorded) {
    if (request.received == Moment()) received(request);
    const auto status = answers ? std::optional(no_memory ? 503u : 500u) : std::nullopt;
    exchange::record_unassigned(loop_, request, Outcome::rejected, status);
  }
  std::string().swap(request.body);
  request.budget_hold.set(0);
  client_.channel().detach();
  if (!answers) {
    client_.channel().reset_on_close();
    co_return;
  }
  auto own = exchange::broken_down_answer(no_memory);
  if (no_memory) own.retry_after = std::chrono::milliseconds(static_cast<int>(loop_.random_from(1000, 2000)));
  co_await send_own(request, own, false);
  refused_ = answered_;
}

/// Ends a request that did not come whole, or that weir does not take. Returns false always.
net::Awaitable<bool> Session::not_read(exchange::ClientRequest& request, RequestReading::End end,
                                       const RequestRefusal& refusal) {
  if (end == RequestReading::End::left) co_return left_early(request);
  if (end == RequestReading::End::cut) co_return co_await stop(request);
  if (end == RequestReading::End::refused) co_return co_await refuse(request, refusal);
  co_return false;
}

/// Answers what weir answers itself. Nobody needs such a request's body, so weir waits for none and pays for none: one
/// that has not come with the head ends the connection.
net::Awaitable<bool> Session::answer_own(exchange::ClientRequest& request) {
  const bool has_no_more = client_.drop_body(request.head);
  const bool keep_alive = request.head.keep_alive && has_no_more;
  request.budget_hold.set(request.head_bytes.capacity());
  request.facts.api = request.dialect;
  request.facts.gives_work = request.head.method == "POST";
  received(request);
  http::OwnAnswer own;
  auto outcome = Outcome::ok;
  if (request.route == http::Route::health) {
    own.body = "{\"status\":\"ok\"}\n";
  } else if (request.route == http::Route::server) {
    own.status = 204;
    own.tells_methods = true;
  } else if (request.route == http::Route::models || request.route == http::Route::model) {
    auto answered = co_await answer_models(request);
    if (!answered) co_return left_early(request);
    own = std::move(*answered);
    if (own.error) outcome = own.status == 429 ? Outcome::rejected : Outcome::bad_request;
  } else if (request.route == http::Route::preflight) {
    own = http::preflight_answer(request.snapshot->settings.server.cors_origins, request.head, *request.cors);
    if (own.error) outcome = Outcome::bad_request;
  } else {
    outcome = Outcome::bad_request;
    own = http::error_answer(
        404, "invalid_request_error", "not_found",
        "this path is not served: weir forwards the inference routes only, and those that server.paths names");
  }
  exchange::record_unassigned(loop_, request, outcome, own.status);
  const auto sent = co_await send_own(request, own, keep_alive);
  refused_ = answered_ && !has_no_more;
  co_return sent;
}

/// Returns nothing if the client left while replicas were asked for it.
net::Awaitable<std::optional<http::OwnAnswer>> Session::answer_models(exchange::ClientRequest& request) {
  fleet::Halt halt;
  const HaltAtDeadline at_deadline(client_, halt);
  exchange::ClientWatch watch(client_.channel(), client_.unread(), request.snapshot->settings.server.half_close);
  if (watch.gone()) halt.call();
  const HaltOnLeave on_leave(watch, halt);
  auto own = co_await loop_.shared.models.answer(request.head, request.route, halt, request.key);
  if (watch.gone()) co_return std::nullopt;
  co_return std::optional<http::OwnAnswer>(std::move(own));
}

net::Awaitable<bool> Session::answer(exchange::ClientRequest& request) {
  const keys::KeySlot place(request.key);
  if (const auto refusal = refusal_of_key(request, place)) {
    const auto sent = co_await send_own(request, *refusal, request.head.keep_alive);
    co_return sent;
  }
  exchange::ExchangeEnd end;
  if (const auto* const pool = request.snapshot->pool_for(request.facts.model); pool == nullptr) {
    end = exchange::end_without_pool(loop_, request);
  } else {
    const InFlightMark in_flight(loop_, request.received);
    exchange::Exchange exchange(loop_, client_.channel(), client_.unread(), request, *pool);
    co_await exchange.run();
    end = exchange.end();
  }
  if (end.own) {
    const auto sent = co_await send_own(request, *end.own, end.keep_alive);
    co_return sent;
  }
  if (end.kept) {
    request.answered = true;
    auto bytes = std::move(*end.kept);
    const auto written = co_await client_.write(std::move(bytes), request.snapshot->settings);
    answered_ = written;
    co_return written&& end.keep_alive;
  }
  if (end.reset) client_.channel().reset_on_close();
  answered_ = !end.reset;
  co_return end.keep_alive;
}

/// A request counts from when its last byte arrived, not from when the loop came to read it: that wait is weir's.
void Session::received(exchange::ClientRequest& request) const {
  request.received = client_.last_arrival();
  request.time = std::chrono::system_clock::now() -
                 std::chrono::duration_cast<std::chrono::system_clock::duration>(Clock::now() - request.received);
}

/// Counts a request whose client went before it was whole. Returns false always, since the connection has ended.
bool Session::left_early(exchange::ClientRequest& request) {
  received(request);
  exchange::record_unassigned(loop_, request, Outcome::client_abort, std::nullopt);
  return false;
}

/// Answers a request that weir does not take, and closes.
net::Awaitable<bool> Session::refuse(exchange::ClientRequest& request, const RequestRefusal& refusal) {
  if (refusal.limit) loop_.shard.limit_hits.add(*refusal.limit);
  received(request);
  const bool no_room = refusal.status == 503;
  exchange::record_unassigned(loop_, request, no_room ? Outcome::rejected : Outcome::bad_request, refusal.status);
  std::string().swap(request.body);
  request.budget_hold.set(0);
  const std::string_view type = no_room                 ? "overloaded_error"
                                : refusal.status == 408 ? "timeout_error"
                                                        : "invalid_request_error";
  auto own = http::error_answer(refusal.status, type, no_room ? "no_memory" : refusal.code, refusal.sentence);
  if (no_room) own.retry_after = std::chrono::milliseconds(static_cast<int>(loop_.random_from(1000, 2000)));
  co_await send_own(request, own, false);
  refused_ = answered_;
  co_return false;
}

/// Answers a client whose request is not whole when limits.drain is over, and closes. That is no limit of the client's.
net::Awaitable<bool> Session::stop(exchange::ClientRequest& request) {
  received(request);
  exchange::record_unassigned(loop_, request, Outcome::rejected, 503);
  const auto own = exchange::stopping_answer();
  co_await send_own(request, own, false);
  refused_ = answered_;
  co_return false;
}

/// Answers a client whose address has too many requests under way, and closes.
net::Awaitable<bool> Session::refuse_address(exchange::ClientRequest& request) {
  loop_.shard.limit_hits.add(metrics::series::Limit::connections_per_address);
  received(request);
  exchange::record_unassigned(loop_, request, Outcome::rejected, 503);
  const auto own = too_many_of_an_address();
  co_await send_own(request, own, false);
  refused_ = answered_;
  co_return false;
}

/// Answers a client that may not enter, and closes. None of its body has been read.
net::Awaitable<bool> Session::deny(exchange::ClientRequest& request, metrics::series::Denied why) {
  loop_.shard.denied.add(why);
  request.facts.api = request.dialect;
  received(request);
  exchange::record_unassigned(loop_, request, Outcome::bad_request, 401);
  const auto own = denied_answer(why);
  co_await send_own(request, own, false);
  refused_ = answered_;
  co_return false;
}

/// Returns the answer to a request that its key may not send, or not now, and counts it. The request is whole.
std::unique_ptr<http::OwnAnswer> Session::refusal_of_key(exchange::ClientRequest& request,
                                                         const keys::KeySlot& place) {
  auto refusal = model_refusal(request);
  if (refusal) {
    loop_.shard.denied.add(metrics::series::Denied::model);
  } else if (!place.got()) {
    loop_.shard.limit_hits.add(metrics::series::Limit::key);
    refusal = key_busy_answer(*request.key, std::chrono::milliseconds(std::lround(loop_.random_from(1000, 1500))));
  } else {
    return nullptr;
  }
  exchange::record_unassigned(loop_, request, refusal->status == 429 ? Outcome::rejected : Outcome::bad_request,
                              refusal->status);
  return std::make_unique<http::OwnAnswer>(std::move(*refusal));
}

/// Sends an answer of weir's own. Returns whether the connection may go on.
net::Awaitable<bool> Session::send_own(exchange::ClientRequest& request, const http::OwnAnswer& own, bool keep_alive) {
  keep_alive = keep_alive && !loop_.shared.draining.load(std::memory_order_relaxed);
  const auto cors = request.cors ? *request.cors : loop_.shared.cors.fields_for(request.head["origin"]);
  const http::OwnFraming framing{request.dialect,
                                 request.head.http_1_1,
                                 keep_alive,
                                 request.head.method == "HEAD",
                                 request.request_id,
                                 request.id,
                                 cors};
  auto text = http::own_answer(own, framing);
  request.answered = true;
  const auto written = co_await client_.write(std::move(text), request.snapshot->settings);
  answered_ = written;
  co_return written&& keep_alive;
}

net::Awaitable<void> run_session(std::unique_ptr<Session> session) { co_await session->run(); }

void start_counted(exchange::Loop& loop, Counted counted, std::unique_ptr<net::Channel> client,
                   const net::PeerAddress& address, net::AddressCounts::CountGuard place) {
  auto session = std::make_unique<Session>(loop, std::move(client), address, std::move(place), std::move(counted));
  const fleet::Unawaited unawaited(loop.shared.exposition.internal_errors, metrics::series::Part::session,
                                   "its connection is closed");
  asio::co_spawn(loop.context, run_session(std::move(session)), unawaited);
}

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
  Counted counted(loop);  // Memory may be short from here on.
  set_client_options(client);
  auto channel = std::make_unique<net::SocketChannel>(loop.poller, loop.clock, std::move(client.socket));
  start_counted(loop, std::move(counted), std::move(channel), client.address, std::move(client.place));
}

void start_session(exchange::Loop& loop, std::unique_ptr<net::Channel> client, const net::PeerAddress& address,
                   net::AddressCounts::CountGuard place) {
  start_counted(loop, Counted(loop), std::move(client), address, std::move(place));
}

}  // namespace weir::proxy::serve

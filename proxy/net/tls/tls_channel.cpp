#include "proxy/net/tls/tls_channel.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <ctime>

#include "metrics/memory.hpp"
#include "proxy/net/tls/context.hpp"

namespace weir::proxy::net::tls {
namespace {

std::chrono::nanoseconds cpu_of_thread() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

template <class Context>
std::unique_ptr<TlsChannel> TlsChannel::make(const Loop& loop, UniqueFd socket, std::shared_ptr<const Context> context,
                                             Side side) {
  if (auto ssl = context->begin())
    return std::unique_ptr<TlsChannel>(
        new TlsChannel(loop, std::move(socket), std::move(ssl), std::move(context), side));
  errno = ENOMEM;
  return nullptr;
}

std::unique_ptr<Channel> TlsChannel::to_replica(const Loop& loop, UniqueFd socket,
                                                std::shared_ptr<const Target> target) {
  return make(loop, std::move(socket), std::move(target), Side::replica);
}

std::unique_ptr<TlsChannel> TlsChannel::to_client(const Loop& loop, UniqueFd socket,
                                                  std::shared_ptr<const ServerContext> context, CpuAccount account) {
  auto channel = make(loop, std::move(socket), std::move(context), Side::client);
  if (channel) channel->account_ = account;
  return channel;
}

TlsChannel::TlsChannel(const Loop& loop, UniqueFd socket, SslPtr ssl, std::shared_ptr<const void> context, Side side)
    : SocketChannel(loop.poller, loop.clock, std::move(socket)),
      context_(std::move(context)),
      handshaking_(loop.handshaking),
      side_(side),
      state_(side == Side::client ? State::handshaking : State::connecting),
      tls_(clock_, socket_.get(), std::move(ssl)) {
  registration_.attach(*this, 0);
  // Until the handshake has ended, an event only asks for a turn, and need not wait for one itself.
  registration_.prioritize();
}

TlsChannel::~TlsChannel() {
  if (state_ == State::handshaking) handshaking_.ended(side_, Result::failed);
  if (state_ == State::open && !resets_) tls_.say_end();
}

Channel::Read TlsChannel::read(std::span<char> into) {
  if (state_ != State::open) {
    errno = state_ == State::failed ? ECONNRESET : EAGAIN;
    return {-1, {}};
  }
  const auto noted = registration_.noted();
  if ((noted & (EPOLLIN | hang_up_events)) != 0) tls_.may_have_bytes((noted & hang_up_events) != 0);
  const bool had_ended = tls_.ended();
  const auto read = tls_.read(into);
  const int error = errno;
  if (tls_.empty()) registration_.use_up(EPOLLIN);
  unread_ = tls_.has_more() || (read.size > 0 && static_cast<std::size_t>(read.size) == into.size());
  if (tls_.has_more()) registration_.rearm(EPOLLIN);
  // A close_notify comes without an event that says so.
  if (tls_.ended() && !had_ended) registration_.rearm(EPOLLRDHUP);
  errno = error;
  return {read.size, read.at};
}

ssize_t TlsChannel::write(std::span<const std::string_view> pieces, std::size_t offset) {
  if (state_ != State::open) {
    errno = state_ == State::failed ? EPIPE : EAGAIN;
    return -1;
  }
  const auto sent = tls_.write(pieces, offset);
  if (sent < 0 && tls_.broken()) {
    const int error = errno;
    break_off();
    errno = error;
  }
  return sent;
}

void TlsChannel::watch(Watcher* watcher) {
  watcher_ = watcher;
  if (watcher != nullptr && state_ == State::open)
    registration_.attach(*this, 0);  // Ends the priority of the handshake.
}

bool TlsChannel::may_read() const {
  if (state_ != State::open) return state_ == State::failed;
  return unread_ || tls_.ended() || SocketChannel::may_read();
}

Channel::Ended TlsChannel::ended() const {
  return state_ == State::failed ? Ended::broken
                                 : std::max(SocketChannel::ended(), tls_.ended() ? Ended::by_peer : Ended::no);
}

bool TlsChannel::is_quiet() {
  if (state_ != State::open || unread_ || ended() != Ended::no) return false;
  if (!may_read()) return true;
  tls_.may_have_bytes(ended() != Ended::no);
  const bool quiet = tls_.is_quiet();
  unread_ = tls_.has_more();
  if (tls_.empty()) registration_.use_up(EPOLLIN);
  return quiet;
}

bool TlsChannel::connecting_waits_for_loop() const {
  if (state_ == State::connecting) return is_ready(POLLOUT);
  return state_ == State::handshaking && (is_linked() || is_ready(POLLIN));
}

int TlsChannel::refusal() const { return state_ == State::open ? tls_.failure() : 0; }

void TlsChannel::end_writing() {
  if (state_ == State::open) tls_.say_end();
  SocketChannel::end_writing();
}

void TlsChannel::reset_on_close() {
  resets_ = true;
  SocketChannel::reset_on_close();
}

void TlsChannel::ready(std::uint32_t, std::uint32_t events) {
  switch (state_) {
    case State::connecting:
      if (const int error = SocketChannel::connect_error(); error != 0) return fail(error);
      if ((events & EPOLLOUT) == 0) return;
      state_ = State::handshaking;
      return handshaking_.ask(*this, side_);
    case State::handshaking:
      return handshaking_.ask(*this, side_);
    default:
      if (tls_.read_waits_to_write() && (events & EPOLLOUT) != 0) events |= EPOLLIN;
      return tell(events);
  }
}

void TlsChannel::prefetch(std::uint32_t, int ahead) const {
  if (ahead == farthest_ahead) metrics::prefetch(&tls_);
  if (watcher_ != nullptr) watcher_->prefetch(0, ahead);
}

/// Charges the step to the client's account. The thread's own clock stands while others have its CPU.
Socket::Step TlsChannel::shake_hands() {
  if (account_.all == nullptr) return tls_.handshake();
  const auto before = cpu_of_thread();
  const auto result = tls_.handshake();
  const auto took = std::chrono::duration<double>(cpu_of_thread() - before).count();
  account_.all->charge(account_.address, took, account_.cpus, std::chrono::steady_clock::now());
  return result;
}

void TlsChannel::step() {
  if (account_.owes_too_much(std::chrono::steady_clock::now())) return fail(costs_too_much);
  tls_.may_have_bytes(SocketChannel::ended() != Ended::no);
  const auto result = shake_hands();
  if (tls_.empty()) registration_.use_up(EPOLLIN);
  if (result == Socket::Step::failed) return fail(tls_.failure());
  if (result != Socket::Step::done) return;
  state_ = State::open;
  unread_ = true;  // The first request may have come with the handshake's last bytes.
  handshaking_.ended(side_, tls_.resumed() ? Result::resumed : Result::full);
  tell(EPOLLIN | EPOLLOUT | (registration_.noted() & hang_up_events));
}

void TlsChannel::tell(std::uint32_t events) {
  if (watcher_ != nullptr) watcher_->ready(0, events);
}

void TlsChannel::fail(int error) {
  if (state_ == State::handshaking) handshaking_.ended(side_, Result::failed);
  state_ = State::failed;
  error_ = error;
  tell(EPOLLERR | EPOLLHUP);
}

bool TlsChannel::handshake_waits_for_peer() const { return state_ == State::handshaking && !SocketChannel::may_read(); }

void TlsChannel::answer_plainly(std::string_view text) {
  static_cast<void>(::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  ::shutdown(socket_.get(), SHUT_WR);
  // Closing with bytes unread would reset the connection, and the peer would lose the answer.
  std::array<char, 4096> dropped;
  for (int reads = 0; reads < 16; ++reads)
    if (::recv(socket_.get(), dropped.data(), dropped.size(), MSG_DONTWAIT) <= 0) return;
}

void Handshaking::ask(Stepper& stepper, Side side) {
  if (stepper.is_linked()) return;
  (side == Side::replica ? replicas_ : clients_).push_back(stepper);
  post();
}

void Handshaking::post() {
  if (std::exchange(posted_, true)) return;
  boost::asio::post(context_, [this] { take_turn(); });
}

void Handshaking::take_turn() {
  posted_ = false;
  auto& waiting = replicas_.empty() ? clients_ : replicas_;
  if (waiting.empty()) return;
  auto& next = waiting.front();
  next.unlink();
  if (!replicas_.empty() || !clients_.empty()) post();
  next.step();
}

}  // namespace weir::proxy::net::tls

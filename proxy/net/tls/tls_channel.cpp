#include "proxy/net/tls/tls_channel.hpp"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <utility>

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

namespace {

/// The bytes that a system call reads: a whole record with its header, padding and tag.
constexpr std::size_t read_ahead = Socket::record_size + 512;

/// Returns the bytes of the next record. Several pieces are gathered here, so that a token is one record.
std::string_view gather(std::span<const std::string_view> pieces, std::size_t offset) {
  if (pieces.empty()) return {};
  const auto first = pieces.front().substr(offset);
  if (pieces.size() == 1 || first.size() >= Socket::record_size) return first.substr(0, Socket::record_size);
  thread_local std::array<char, Socket::record_size> record;
  std::size_t size = 0;
  for (auto piece = first;; piece = pieces.front()) {
    const auto part = piece.substr(0, record.size() - size);
    std::memcpy(record.data() + size, part.data(), part.size());
    size += part.size();
    pieces = pieces.subspan(1);
    if (pieces.empty() || size == record.size()) return {record.data(), size};
  }
}

}  // namespace

Socket::Socket(const ArrivalClock& clock, int fd, SslPtr ssl) : clock_(clock), fd_(fd), ssl_(std::move(ssl)) {
  BIO* const bio = BIO_new(method());
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  // OpenSSL then tells of each record without data, and those can be counted.
  SSL_clear_mode(ssl_.get(), SSL_MODE_AUTO_RETRY);
  SSL_set_read_ahead(ssl_.get(), 0);
}

const BIO_METHOD* Socket::method() {
  static const BIO_METHOD* const made = [] {
    BIO_METHOD* const ours = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weir");
    BIO_meth_set_read(ours, &Socket::read_some);
    BIO_meth_set_write(ours, &Socket::write_some);
    BIO_meth_set_ctrl(ours, &Socket::control);
    return ours;
  }();
  return made;
}

/// Keeps what was read ahead, and leaves the thread's buffer to others.
void Socket::end_turn() {
  if (ahead_.empty()) {
    std::string().swap(kept_);
  } else if (ahead_.data() + ahead_.size() != kept_.data() + kept_.size()) {
    kept_.assign(ahead_);
    ahead_ = kept_;
  }
}

/// Does `work` and ends the turn behind it; errno is as `work` leaves it. A write ends a turn, too: OpenSSL may read on
/// before it writes.
template <class Work>
auto Socket::in_turn(const Work& work) {
  const auto result = work();
  const int error = errno;
  end_turn();
  errno = error;
  return result;
}

/// Reads from the system. Returns false if that brings nothing, and errno says why; at the end it does not.
bool Socket::refill() {
  thread_local std::array<char, read_ahead> buffer;
  errno = EAGAIN;
  if (empty_ || at_end_) return false;
  const auto read = clock_.read(fd_, buffer);
  if (read.size < 0) {
    empty_ = errno == EAGAIN;
    return false;
  }
  at_ = read.at;
  at_end_ = read.size == 0;
  ahead_ = {buffer.data(), static_cast<std::size_t>(read.size)};
  empty_ = !at_end_ && ahead_.size() < buffer.size() && !has_ended_;
  return !at_end_;
}

int Socket::read_some(BIO* bio, char* into, int size) {
  auto& self = *static_cast<Socket*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (self.ahead_.empty() && !self.refill()) {
    if (self.at_end_) return 0;
    if (errno == EAGAIN || errno == EINTR) {
      self.starved_ = true;
      BIO_set_retry_read(bio);
    } else {
      self.io_error_ = errno;
    }
    return -1;
  }
  const auto given = self.ahead_.copy(into, static_cast<std::size_t>(size));
  self.ahead_.remove_prefix(given);
  return static_cast<int>(given);
}

int Socket::write_some(BIO* bio, const char* bytes, int size) {
  auto& self = *static_cast<Socket*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  const auto sent = ::send(self.fd_, bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) {
    if (errno == EAGAIN || errno == EINTR)
      BIO_set_retry_write(bio);
    else
      self.io_error_ = errno;
  }
  return static_cast<int>(sent);
}

long Socket::control(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_FLUSH) return 1;
  if (command == BIO_CTRL_EOF) return static_cast<Socket*>(BIO_get_data(bio))->at_end_ ? 1 : 0;
  return 0;
}

Socket::Step Socket::handshake() {
  ERR_clear_error();
  io_error_ = 0;
  const int result = SSL_do_handshake(ssl_.get());
  end_turn();
  if (result == 1) return Step::done;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return Step::reads;
    case SSL_ERROR_WANT_WRITE:
      return Step::writes;
    default:
      break;
  }
  broken_ = ended_ = true;
  const auto error = ERR_peek_error();
  const bool verifies = (SSL_get_verify_mode(ssl_.get()) & SSL_VERIFY_PEER) != 0;
  if (const long verified = SSL_get_verify_result(ssl_.get()); verifies && verified != X509_V_OK)
    failure_ = failed_verification(verified);
  else if (io_error_ != 0)
    failure_ = io_error_;
  else if (at_end_ || ERR_GET_LIB(error) != ERR_LIB_SSL)
    failure_ = ended_within_handshake;
  else
    failure_ = failed_handshake(ERR_GET_REASON(error));
  ERR_clear_error();
  return Step::failed;
}

/// Handles OpenSSL's wish to read on, which comes behind each record without data and where no more bytes are there.
/// Returns true if a record was passed over and the next one may be read in this turn.
bool Socket::skip_record(unsigned& passed) {
  if (starved_) return false;
  if (++without_data_ >= most_in_all) {
    broken_ = ended_ = true;
    io_error_ = ECONNABORTED;
    return false;
  }
  has_more_ = ++passed == most_without_data;
  return !has_more_;
}

Read Socket::read(std::span<char> into) {
  return in_turn([&] { return read_in_turn(into); });
}

ssize_t Socket::write(std::span<const std::string_view> pieces, std::size_t offset) {
  return in_turn([&] { return write_in_turn(pieces, offset); });
}

bool Socket::is_quiet() {
  return in_turn([&] { return !ended_ && is_quiet_in_turn(); });
}

Read Socket::read_in_turn(std::span<char> into) {
  std::size_t size = 0;
  unsigned passed = 0;
  read_waits_to_write_ = has_more_ = false;
  while (size < into.size() && !broken_) {
    ERR_clear_error();
    starved_ = false;
    std::size_t got = 0;
    if (SSL_read_ex(ssl_.get(), into.data() + size, into.size() - size, &got) == 1) {
      size += got;
      heard_ = true;
      without_data_ = 0;
      continue;
    }
    const int why = SSL_get_error(ssl_.get(), 0);
    if (why == SSL_ERROR_WANT_READ && skip_record(passed)) continue;
    if (broken_) break;
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
      read_waits_to_write_ = why == SSL_ERROR_WANT_WRITE;
      if (size > 0) return {static_cast<ssize_t>(size), at_};
      errno = EAGAIN;
      return {-1, at_};
    }
    ended_ = true;
    if (why == SSL_ERROR_ZERO_RETURN) return {static_cast<ssize_t>(size), at_};
    broken_ = true;
    if (const int reason = ERR_GET_REASON(ERR_peek_error()); !heard_ && refuses_certificate(reason))
      failure_ = failed_handshake(reason);
    ERR_clear_error();
  }
  if (size > 0) return {static_cast<ssize_t>(size), at_};
  errno = io_error_ != 0 ? io_error_ : ECONNRESET;
  return {-1, at_};
}

ssize_t Socket::write_in_turn(std::span<const std::string_view> pieces, std::size_t offset) {
  const auto record = gather(pieces, offset);
  if (record.empty()) return 0;
  if (broken_) {
    errno = EPIPE;
    return -1;
  }
  ERR_clear_error();
  std::size_t written = 0;
  if (SSL_write_ex(ssl_.get(), record.data(), record.size(), &written) == 1) {
    partly_written_ = false;
    return static_cast<ssize_t>(written);
  }
  const int why = SSL_get_error(ssl_.get(), 0);
  if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
    partly_written_ = true;
    errno = EAGAIN;
    return -1;
  }
  ERR_clear_error();
  partly_written_ = true;  // Nothing can follow.
  // OpenSSL has failed by itself, for want of memory, and reads no more either.
  if (io_error_ == 0) broken_ = ended_ = true;
  errno = io_error_ != 0 ? io_error_ : EPIPE;
  return -1;
}

void Socket::say_end() {
  if (broken_ || partly_written_ || SSL_in_init(ssl_.get())) return;
  // A second call would read.
  if ((SSL_get_shutdown(ssl_.get()) & SSL_SENT_SHUTDOWN) != 0) return;
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

bool Socket::is_quiet_in_turn() {
  unsigned passed = 0;
  has_more_ = false;
  do {
    ERR_clear_error();
    starved_ = false;
    char byte = 0;
    std::size_t got = 0;
    if (SSL_peek_ex(ssl_.get(), &byte, 1, &got) == 1) return false;
    if (SSL_get_error(ssl_.get(), 0) != SSL_ERROR_WANT_READ) return false;
  } while (skip_record(passed));
  return starved_;
}

}  // namespace weir::proxy::net::tls

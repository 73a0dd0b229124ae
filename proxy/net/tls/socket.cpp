#include "proxy/net/tls/socket.hpp"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "proxy/net/tls/context.hpp"

namespace weir::proxy::net::tls {
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

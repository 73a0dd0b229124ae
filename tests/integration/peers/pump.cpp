#include "tests/integration/peers/pump.hpp"

#include <fcntl.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <thread>

#include "tests/integration/peers/look.hpp"
#include "tests/integration/peers/socket.hpp"

namespace weir::integration {
namespace {

/// A peer that does not read at all is not waited for any longer than a test is patient.
void await_taken(int fd) {
  for (const auto deadline = Clock::now() + patience; !system_has_all(fd) && Clock::now() < deadline;)
    std::this_thread::sleep_for(between_looks);
}

void set_blocking(int fd, bool blocks) {
  const int flags = ::fcntl(fd, F_GETFL);
  ::fcntl(fd, F_SETFL, blocks ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

bool is_passing(int error) { return error == EAGAIN || error == EINTR; }

short if_wanted(short event, bool wanted) { return wanted ? event : short{0}; }

}  // namespace

void close_by_reset(int fd) {
  const linger at_once{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

Pump::Pump(int plain, int far, SSL* ssl, int called_off, Options options)
    : plain_(plain),
      far_(far),
      ssl_(ssl),
      called_off_(called_off),
      options_(options),
      read_by_handshake_(ssl == nullptr ? 0 : BIO_number_read(SSL_get_rbio(ssl))) {
  set_blocking(plain, false);
  set_blocking(far, false);
  if (ssl != nullptr) SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE);
}

void Pump::run() {
  while (!over_) {
    moved_ = false;
    if (to_far_.empty() && !plain_ended_) read_plain();
    if (!over_ && !to_far_.empty()) write_far();
    if (!over_ && to_plain_.empty()) read_far();
    if (!over_ && !to_plain_.empty()) write_plain();
    if (!over_ && !moved_ && !wait()) return;
  }
}

void Pump::give_up(int other) {
  close_by_reset(other);
  over_ = true;
}

void Pump::read_plain() {
  const auto size = ::recv(plain_, to_far_.bytes.data(), to_far_.bytes.size(), 0);
  if (size < 0 && is_passing(errno)) return;
  if (size <= 0) await_end_of_handshake();
  if (size < 0) {
    if (options_.to_server) await_taken(far_);
    return give_up(far_);
  }
  moved_ = true;
  if (size == 0) return plain_ended();
  to_far_.begin = 0;
  to_far_.end = static_cast<std::size_t>(size);
}

void Pump::plain_ended() {
  plain_ended_ = true;
  over_ = !options_.half_closes;
  if (ssl_ == nullptr) return;
  set_blocking(far_, true);
  SSL_shutdown(ssl_);
  set_blocking(far_, false);
}

void Pump::write_far() {
  ERR_clear_error();
  const auto sent = ssl_ == nullptr ? ::send(far_, to_far_.data(), to_far_.size(), MSG_NOSIGNAL)
                                    : SSL_write(ssl_, to_far_.data(), static_cast<int>(to_far_.size()));
  if (sent > 0) {
    to_far_.begin += static_cast<std::size_t>(sent);
    moved_ = true;
    return;
  }
  const int why = ssl_ == nullptr ? SSL_ERROR_NONE : SSL_get_error(ssl_, static_cast<int>(sent));
  if (ssl_ == nullptr ? is_passing(errno) : why == SSL_ERROR_WANT_WRITE || why == SSL_ERROR_WANT_READ) return;
  give_up(plain_);
}

void Pump::read_far() {
  ERR_clear_error();
  const auto size = ssl_ == nullptr ? ::recv(far_, to_plain_.bytes.data(), to_plain_.bytes.size(), 0)
                                    : SSL_read(ssl_, to_plain_.bytes.data(), static_cast<int>(to_plain_.bytes.size()));
  if (size > 0) {
    to_plain_.begin = 0;
    to_plain_.end = static_cast<std::size_t>(size);
    moved_ = true;
    return;
  }
  const int why = ssl_ == nullptr ? SSL_ERROR_NONE : SSL_get_error(ssl_, static_cast<int>(size));
  // A record that is not whole, or a ticket, brings nothing yet.
  if (ssl_ == nullptr ? size < 0 && is_passing(errno) : why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
    return;
  if (ssl_ == nullptr ? size == 0 : why == SSL_ERROR_ZERO_RETURN) {
    over_ = true;
    return;
  }
  give_up(plain_);
}

void Pump::write_plain() {
  const auto sent = ::send(plain_, to_plain_.data(), to_plain_.size(), MSG_NOSIGNAL);
  if (sent > 0) {
    to_plain_.begin += static_cast<std::size_t>(sent);
    moved_ = true;
  } else if (!is_passing(errno)) {
    give_up(far_);
  }
}

bool Pump::wait() {
  const bool reads_plain = to_far_.empty() && !plain_ended_, reads_far = to_plain_.empty();
  const auto of_plain = if_wanted(POLLIN, reads_plain) | if_wanted(POLLOUT, !to_plain_.empty());
  const auto of_far = if_wanted(POLLIN, reads_far) | if_wanted(POLLOUT, !to_far_.empty());
  std::array<pollfd, 3> watched{pollfd{plain_, static_cast<short>(of_plain), 0},
                                pollfd{far_, static_cast<short>(of_far), 0}, pollfd{called_off_, POLLIN, 0}};
  while (::poll(watched.data(), watched.size(), -1) < 0 && errno == EINTR) {
  }
  if (watched[2].revents != 0) return false;
  // Bytes that a side sent before it reset are of no use to one that does not take them.
  constexpr int gone = POLLERR | POLLHUP;
  if (!reads_plain && (watched[0].revents & gone) != 0) give_up(far_);
  if (!reads_far && (watched[1].revents & gone) != 0) give_up(plain_);
  return true;
}

/// A server of TLS 1.3 gives a ticket at its end of the handshake. An end of the connection before that would break it.
void Pump::await_end_of_handshake() {
  if (ssl_ == nullptr || !options_.to_server || SSL_version(ssl_) != TLS1_3_VERSION) return;
  if (BIO_number_read(SSL_get_rbio(ssl_)) != read_by_handshake_) return;
  std::array<pollfd, 2> watched{pollfd{far_, POLLIN, 0}, pollfd{called_off_, POLLIN, 0}};
  while (::poll(watched.data(), watched.size(), -1) < 0 && errno == EINTR) {
  }
}

}  // namespace weir::integration

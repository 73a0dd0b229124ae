#include "tests/integration/peers/tls_bridge.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "tests/integration/peers/look.hpp"
#include "tests/integration/peers/loopback.hpp"
#include "tests/integration/peers/socket.hpp"

namespace weir::integration {
namespace {

void set_option(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); }

int listen_on(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0) << path << std::strerror(errno);
  EXPECT_EQ(::listen(fd, 64), 0);
  return fd;
}

int listen_anywhere(std::uint16_t& port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto address = loopback(0);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::listen(fd, 64), 0);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  port = ntohs(address.sin_port);
  return fd;
}

int connect_to(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto address = loopback(port);
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  ::close(fd);
  return -1;
}

void close_by_reset(int fd) {
  const linger at_once{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

/// A peer that does not read at all is not waited for any longer than a test is patient.
void await_taken(int fd) {
  for (const auto deadline = Clock::now() + patience; !system_has_all(fd) && Clock::now() < deadline;)
    std::this_thread::sleep_for(between_looks);
}

void set_blocking(int fd, bool blocks) {
  const int flags = ::fcntl(fd, F_GETFL);
  ::fcntl(fd, F_SETFL, blocks ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

}  // namespace

std::string tls_file(const std::string& name) { return std::string(WEIR_TEST_DATA) + "/tls/" + name; }

void show_certificate(SSL_CTX& context, const std::string& name) {
  EXPECT_EQ(SSL_CTX_use_certificate_chain_file(&context, tls_file(name + ".pem").c_str()), 1) << name;
  EXPECT_EQ(SSL_CTX_use_PrivateKey_file(&context, tls_file(name + ".key").c_str(), SSL_FILETYPE_PEM), 1) << name;
}

/// OpenSSL writes without MSG_NOSIGNAL.
const auto no_signal_for_a_lost_peer = ::signal(SIGPIPE, SIG_IGN);

Bridge::Bridge(Kind kind, std::uint16_t to, Options options)
    : kind_(kind),
      to_(to),
      options_(std::move(options)),
      context_(SSL_CTX_new(TLS_method()), &SSL_CTX_free),
      called_off_(::eventfd(0, EFD_CLOEXEC)) {
  if (kind == Kind::tls_to_plain) {
    show_certificate(*context_, "local");
    // OpenSSL resumes no session of a client whose certificate it has checked without this.
    SSL_CTX_set_session_id_context(context_.get(), reinterpret_cast<const unsigned char*>("bridge"), 6);
  } else {
    SSL_CTX_load_verify_file(context_.get(), tls_file("ca.pem").c_str());
    SSL_CTX_set_verify(context_.get(), options_.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
    SSL_CTX_set_session_cache_mode(context_.get(), SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
    SSL_CTX_sess_set_new_cb(context_.get(), &Bridge::keep_session);
    SSL_CTX_set_app_data(context_.get(), this);
  }
  if (options_.context) options_.context(*context_);
  listener_ = kind == Kind::path_to_plain ? listen_on(options_.path) : listen_anywhere(port_);
  acceptor_ = std::thread([this] { accept_all(); });
}

Bridge::~Bridge() {
  ::eventfd_write(called_off_, 1);
  acceptor_.join();
  for (auto& one : connections_) one.thread.join();
  ::close(listener_);
  ::close(called_off_);
}

std::string Bridge::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

std::string Bridge::peer() const {
  const std::lock_guard lock(mutex_);
  return peer_;
}

int Bridge::keep_session(SSL* ssl, SSL_SESSION* session) {
  auto* const self = static_cast<Bridge*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  const std::lock_guard lock(self->mutex_);
  self->session_.reset(session, &SSL_SESSION_free);
  return 1;
}

bool Bridge::wait(int one, int other, int writes) const {
  const auto events = [writes](int fd) { return static_cast<short>(fd == writes ? POLLOUT : POLLIN); };
  std::array<pollfd, 3> watched{pollfd{one, events(one), 0}, pollfd{other, events(other), 0},
                                pollfd{called_off_, POLLIN, 0}};
  while (::poll(watched.data(), watched.size(), -1) < 0 && errno == EINTR) {
  }
  return watched[2].revents == 0;
}

void Bridge::accept_all() {
  while (wait(listener_, -1, -1)) {
    const int near = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (near < 0) continue;
    connections_.remove_if([](Connection& one) {
      const bool done = one.done;
      if (done) one.thread.join();
      return done;
    });
    auto& one = connections_.emplace_back();
    one.thread = std::thread([this, &one, near] {
      serve(near);
      one.done = true;
    });
  }
}

void Bridge::serve(int near) {
  const int far = connect_to(to_);
  const int plain = kind_ == Kind::plain_to_tls ? near : far, other = kind_ == Kind::plain_to_tls ? far : near;
  if (far < 0) {
    close_by_reset(near);
  } else if (kind_ == Kind::path_to_plain) {
    pump(plain, other, nullptr);
  } else {
    set_option(other, IPPROTO_TCP, TCP_NODELAY, 1);
    const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context_.get()), &SSL_free);
    if (shake_hands(*ssl, other)) pump(plain, other, ssl.get());
  }
  if (far >= 0) ::close(far);
  ::close(near);
}

bool Bridge::shake_hands(SSL& ssl, int fd) {
  SSL_set_fd(&ssl, fd);
  if (kind_ == Kind::tls_to_plain) {
    SSL_set_accept_state(&ssl);
  } else {
    SSL_set_connect_state(&ssl);
    SSL_set_tlsext_host_name(&ssl, options_.server_name.c_str());
    if (options_.verify) SSL_set1_host(&ssl, options_.server_name.c_str());
    const std::lock_guard lock(mutex_);
    if (session_) SSL_set_session(&ssl, session_.get());
  }
  ERR_clear_error();
  const timeval longest{20, 0};  // The peer may never answer.
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
  const bool done = SSL_do_handshake(&ssl) == 1;
  const std::lock_guard lock(mutex_);
  if (!done) {
    const char* const why = ERR_reason_error_string(ERR_peek_error());
    error_ = why != nullptr ? why : "no reason";
    ++failed_;
    return false;
  }
  std::array<char, 100> subject{};
  if (const auto* certificate = SSL_get0_peer_certificate(&ssl))
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, subject.data(), subject.size());
  peer_ = subject.data();
  if (SSL_session_reused(&ssl) == 1) ++resumed_;
  ++handshakes_;
  return true;
}

/// A server of TLS 1.3 gives a ticket at its end of the handshake. An end of the connection before that would break it.
void Bridge::await_end_of_handshake(int far, SSL* ssl, std::uint64_t read_by_handshake) const {
  if (ssl == nullptr || kind_ != Kind::plain_to_tls || SSL_version(ssl) != TLS1_3_VERSION) return;
  if (BIO_number_read(SSL_get_rbio(ssl)) == read_by_handshake) static_cast<void>(wait(far, -1, -1));
}

void Bridge::pump(int plain, int far, SSL* ssl) {
  std::array<char, 32 * 1024> bytes;
  const auto read_by_handshake = ssl == nullptr ? 0 : BIO_number_read(SSL_get_rbio(ssl));
  const auto read_far = [&] {
    return ssl == nullptr ? ::recv(far, bytes.data(), bytes.size(), 0)
                          : static_cast<ssize_t>(SSL_read(ssl, bytes.data(), static_cast<int>(bytes.size())));
  };
  for (;;) {
    if (ssl == nullptr || SSL_pending(ssl) == 0) {
      if (!wait(plain, far, -1)) return;
    }
    pollfd from_plain{plain, POLLIN, 0}, from_far{far, POLLIN, 0};
    if (::poll(&from_plain, 1, 0) > 0) {
      const auto size = ::recv(plain, bytes.data(), bytes.size(), 0);
      if (size <= 0) await_end_of_handshake(far, ssl, read_by_handshake);
      if (size < 0) {
        if (kind_ == Kind::plain_to_tls) await_taken(far);
        return close_by_reset(far);
      }
      if (size == 0) {
        if (ssl != nullptr && !options_.cuts) SSL_shutdown(ssl);
        return;
      }
      const std::string_view text(bytes.data(), static_cast<std::size_t>(size));
      const bool sent = ssl == nullptr ? send_all(far, text) : SSL_write(ssl, text.data(), static_cast<int>(size)) > 0;
      if (!sent) return close_by_reset(plain);
    }
    if ((ssl != nullptr && SSL_pending(ssl) > 0) || ::poll(&from_far, 1, 0) > 0) {
      ERR_clear_error();
      if (ssl != nullptr) {
        // A record that is not whole, or a ticket, must not keep this thread from the other side.
        char one = 0;
        set_blocking(far, false);
        const int peeked = SSL_peek(ssl, &one, 1);
        const int why = SSL_get_error(ssl, peeked);
        set_blocking(far, true);
        if (why == SSL_ERROR_WANT_READ) continue;
      }
      const auto size = read_far();
      if (size < 0 || (size == 0 && ssl != nullptr && SSL_get_error(ssl, 0) != SSL_ERROR_ZERO_RETURN))
        return close_by_reset(plain);
      if (size == 0) return;
      if (!send_all(plain, {bytes.data(), static_cast<std::size_t>(size)})) return close_by_reset(far);
    }
  }
}

}  // namespace weir::integration

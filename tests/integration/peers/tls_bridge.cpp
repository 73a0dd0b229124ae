#include "tests/integration/peers/tls_bridge.hpp"

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

#include "tests/integration/peers/loopback.hpp"
#include "tests/integration/peers/pump.hpp"

namespace weir::integration {
namespace {

constexpr int small_buffer = 32 * 1024;

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

int connect_to(std::uint16_t port, int send_buffer) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (send_buffer > 0) set_option(fd, SOL_SOCKET, SO_SNDBUF, send_buffer);
  const auto address = loopback(port);
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  ::close(fd);
  return -1;
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
  if (options_.small_buffers) set_option(listener_, SOL_SOCKET, SO_RCVBUF, small_buffer);
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

bool Bridge::wait_for_connection() const {
  std::array<pollfd, 2> watched{pollfd{listener_, POLLIN, 0}, pollfd{called_off_, POLLIN, 0}};
  while (::poll(watched.data(), watched.size(), -1) < 0 && errno == EINTR) {
  }
  return watched[1].revents == 0;
}

void Bridge::accept_all() {
  while (wait_for_connection()) {
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
  const int far = connect_to(to_, options_.small_buffers ? small_buffer : 0);
  const int plain = kind_ == Kind::plain_to_tls ? near : far, other = kind_ == Kind::plain_to_tls ? far : near;
  if (far < 0) {
    close_by_reset(near);
  } else if (kind_ == Kind::path_to_plain) {
    Pump(plain, other, nullptr, called_off_, {}).run();
  } else {
    set_option(other, IPPROTO_TCP, TCP_NODELAY, 1);
    const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context_.get()), &SSL_free);
    const Pump::Options how{options_.cuts, options_.half_closes, kind_ == Kind::plain_to_tls};
    if (shake_hands(*ssl, other)) Pump(plain, other, ssl.get(), called_off_, how).run();
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

}  // namespace weir::integration

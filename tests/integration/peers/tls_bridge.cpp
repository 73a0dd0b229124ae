#include "tests/integration/peers/tls_bridge.hpp"

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "tests/integration/peers/pump.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

void set_option(int fd, int level, int option, const auto& value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

}  // namespace

std::string tls_file(const std::string& name) { return std::string(WEIR_TEST_DATA) + "/tls/" + name; }

std::string certificate_keys(const std::string& name) {
  return "cert = " + quoted(tls_file(name + ".pem")) + ", key = " + quoted(tls_file(name + ".key"));
}

WeirSettings with_tls(WeirSettings settings, const std::string& name, const std::string& more) {
  settings.server["tls"] = "{ " + certificate_keys(name) + more + " }";
  return settings;
}

std::string trusting_keys() { return "ca = " + quoted(tls_file("ca.pem")); }

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
      called_off_(::eventfd(0, EFD_CLOEXEC)),
      listener_(kind == Kind::path_to_plain ? Socket::listen(called_off_, options_.path)
                                            : Socket::listen(called_off_)) {
  if (kind == Kind::tls_to_plain) {
    show_certificate(*context_, "local");
    // OpenSSL resumes no session of a client whose certificate it has checked without this.
    SSL_CTX_set_session_id_context(context_.get(), reinterpret_cast<const unsigned char*>("bridge"), 6);
  } else {
    SSL_CTX_load_verify_file(context_.get(), tls_file("ca.pem").c_str());
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_session_cache_mode(context_.get(), SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
    SSL_CTX_sess_set_new_cb(context_.get(), &Bridge::keep_session);
    SSL_CTX_set_app_data(context_.get(), this);
  }
  if (options_.context) options_.context(*context_);
  if (options_.small_buffers) listener_.small_receive_buffer();
  acceptor_ = std::thread([this] { accept_all(); });
}

Bridge::~Bridge() {
  ::eventfd_write(called_off_, 1);
  acceptor_.join();
  for (auto& one : connections_) one.thread.join();
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

void Bridge::accept_all() {
  try {
    for (;;) {
      auto near = listener_.accept();
      connections_.remove_if([](Connection& one) {
        const bool done = one.done;
        if (done) one.thread.join();
        return done;
      });
      auto& one = connections_.emplace_back();
      one.thread = std::thread([this, &one, peer = std::move(near)]() mutable {
        serve(std::move(peer));
        one.done = true;
      });
    }
  } catch (const CalledOff&) {
  }
}

void Bridge::serve(Socket near) {
  Socket far;
  try {
    far = Socket::connect(to_);
  } catch (const PeerGone&) {
    return near.reset();
  }
  if (options_.small_buffers) far.small_send_buffer();
  const bool to_server = kind_ == Kind::plain_to_tls;
  const int plain = to_server ? near.fd() : far.fd(), other = to_server ? far.fd() : near.fd();
  if (kind_ == Kind::path_to_plain) return Pump(plain, other, nullptr, called_off_, {}).run();
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context_.get()), &SSL_free);
  if (shake_hands(*ssl, other)) Pump(plain, other, ssl.get(), called_off_, {options_.half_closes, to_server}).run();
}

bool Bridge::shake_hands(SSL& ssl, int fd) {
  SSL_set_fd(&ssl, fd);
  if (kind_ == Kind::tls_to_plain) {
    SSL_set_accept_state(&ssl);
  } else {
    SSL_set_connect_state(&ssl);
    SSL_set_tlsext_host_name(&ssl, "localhost");
    SSL_set1_host(&ssl, "localhost");
    const std::lock_guard lock(mutex_);
    if (session_) SSL_set_session(&ssl, session_.get());
  }
  ERR_clear_error();
  set_option(fd, SOL_SOCKET, SO_RCVTIMEO, timeval{20, 0});  // The peer may never answer.
  const bool done = SSL_do_handshake(&ssl) == 1;
  const std::lock_guard lock(mutex_);
  if (!done) {
    const char* const why = ERR_reason_error_string(ERR_peek_error());
    error_ = why != nullptr ? why : "no reason";
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

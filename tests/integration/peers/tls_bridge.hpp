// Stands between two peers of which one speaks plainly: the far side speaks TLS, or listens on a Unix-domain path. So
// the scripted replica and the client need to know nothing of either.
//
// Each connection has a thread of its own. What an end of one side means is passed on: a close becomes a close_notify
// and a close, and a reset a reset. weir has by then what came before: it would lose bytes that are still on their way
// when a reset comes, and a request whose connection ends within the handshake.
#pragma once

#include <openssl/ssl.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {

/// Returns the path of a file of tests/data/tls.
std::string tls_file(const std::string& name);
/// Returns the keys of a `tls` of weir's settings: this certificate of tests/data/tls, and its key.
std::string certificate_keys(const std::string& name);
/// The same settings, whose clients speak TLS.
WeirSettings with_tls(WeirSettings settings, const std::string& name = "local", const std::string& more = "");
/// The key of a replica's `tls` that trusts the authority of tests/data/tls.
std::string trusting_keys();
/// Lets a context show this certificate of tests/data/tls.
void show_certificate(SSL_CTX& context, const std::string& name);

class Bridge {
 public:
  enum class Kind {
    tls_to_plain,   ///< A bridge before a replica.
    plain_to_tls,   ///< A bridge behind a client.
    path_to_plain,  ///< A bridge that listens on a path, before a replica.
  };
  struct Options {
    std::function<void(SSL_CTX&)> context{};  ///< Changes the context before the first connection.
    std::string path{};                       ///< The bridge listens there.
    bool half_closes = false;    ///< The end of the plain side becomes a close_notify alone, and reading goes on.
    bool small_buffers = false;  ///< Its connections hold little that the plain side has not taken.
  };
  /// Leads to a port of the loopback interface.
  Bridge(Kind kind, std::uint16_t to, Options options);
  Bridge(Kind kind, std::uint16_t to) : Bridge(kind, to, Options{}) {}
  ~Bridge();
  Bridge(const Bridge&) = delete;
  Bridge& operator=(const Bridge&) = delete;

  std::uint16_t port() const { return listener_.port(); }
  std::string url() const { return "https://" + at_loopback(port()); }
  /// Counts handshakes that ended well, and those of them that resumed a session.
  std::size_t handshakes() const { return handshakes_; }
  std::size_t resumed() const { return resumed_; }
  /// Returns why the last handshake failed, in OpenSSL's words.
  std::string error() const;
  /// Returns the subject of the certificate that the last peer showed.
  std::string peer() const;

 private:
  void accept_all();
  void serve(Socket near);
  bool shake_hands(SSL& ssl, int fd);
  static int keep_session(SSL* ssl, SSL_SESSION* session);

  const Kind kind_;
  const std::uint16_t to_;
  const Options options_;
  const std::shared_ptr<SSL_CTX> context_;
  const int called_off_;
  Socket listener_;
  std::atomic<std::size_t> handshakes_{0}, resumed_{0};
  mutable std::mutex mutex_;
  std::string error_, peer_;
  std::shared_ptr<SSL_SESSION> session_;
  struct Connection {
    std::thread thread;
    std::atomic<bool> done{false};
  };
  std::list<Connection> connections_;
  std::thread acceptor_;
};

}  // namespace weir::integration

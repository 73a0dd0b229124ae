// The state of TLS before a connection: certificates and rules for clients, verification and sessions for replicas.
//
// The control thread makes contexts from the settings; they never change, and any thread may use them. Connections keep
// the context with which they began. TLS 1.2 and 1.3 are spoken, at OpenSSL's security level 2, with ALPN http/1.1.
// There is no renegotiation, no compression and no early data, and
// keys are exchanged by few groups (config/tls.hpp) unless the settings list others.
#pragma once

#include <openssl/evp.h>
#include <openssl/ssl.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/settings.hpp"
#include "metrics/moment.hpp"

namespace weir::proxy::net::tls {

class TicketKeys {
 public:
  static constexpr std::chrono::hours seals_for{12}, opens_for{24};

  /// The first key is made now. Throws std::runtime_error if the system gives no random bytes.
  explicit TicketKeys(metrics::Moment now);
  ~TicketKeys();
  TicketKeys(const TicketKeys&) = delete;
  TicketKeys& operator=(const TicketKeys&) = delete;

  /// Replaces the key that has sealed for its time, and forgets the one that has opened for its time. To be called
  /// often.
  void tick(metrics::Moment now);

  /// Lets the context seal and open tickets by these keys, which outlive its connections.
  void serve(SSL_CTX& context);

 private:
  struct Key {
    std::array<unsigned char, 16> name;  ///< In the ticket, so that the key is found again.
    std::array<unsigned char, 32> cipher, mac;
  };
  static std::optional<Key> make();
  static int use(SSL* ssl, unsigned char* name, unsigned char* iv, EVP_CIPHER_CTX* cipher, EVP_MAC_CTX* mac, int seals);
  int seal(unsigned char* name, unsigned char* iv, EVP_CIPHER_CTX& cipher, EVP_MAC_CTX& mac) const;
  int open(const unsigned char* name, const unsigned char* iv, EVP_CIPHER_CTX& cipher, EVP_MAC_CTX& mac,
           bool once) const;

  mutable std::mutex mutex_;
  Key current_;
  std::optional<Key> before_;
  metrics::Moment made_;  ///< The current key was made then.
};

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
};
using SslPtr = std::unique_ptr<SSL, FreeSsl>;
using ContextPtr = std::unique_ptr<SSL_CTX, FreeSsl>;
using SessionPtr = std::unique_ptr<SSL_SESSION, FreeSsl>;
/// The SHA-256 of the files and lists from which a context was made.
using Fingerprint = std::array<std::uint8_t, 32>;

/// Speaks to clients. The server name that a client sends chooses the certificate: an exact name before a wildcard,
/// which stands for one label; the first certificate is for all other names. The keys of session tickets are the
/// context's own, and change with time.
class ServerContext {
 public:
  /// Throws std::runtime_error with a sentence that names the key and the file.
  explicit ServerContext(const config::ServerTls& settings);
  ServerContext(const ServerContext&) = delete;
  ServerContext& operator=(const ServerContext&) = delete;

  /// Returns one that waits for a client's hello. The context outlives it.
  SslPtr begin() const;
  const Fingerprint& fingerprint() const { return fingerprint_; }
  /// Returns when the first of its certificates ends; those that sign them are not looked at.
  std::chrono::system_clock::time_point ends() const { return ends_; }
  /// Returns which certificate is for this name.
  std::size_t certificate_for(std::string_view server_name) const;
  /// Replaces keys of session tickets whose time is over: see TicketKeys::look.
  void look_after_keys(metrics::Moment now) const { ticket_keys_.tick(now); }

 private:
  static int choose(SSL* ssl, int* alert, void* self);

  mutable TicketKeys ticket_keys_;
  Fingerprint fingerprint_{};
  std::chrono::system_clock::time_point ends_ = std::chrono::system_clock::time_point::max();
  std::vector<ContextPtr> contexts_;                        ///< There is one for each certificate.
  std::vector<std::pair<std::string, std::size_t>> names_;  ///< In lower case; a wildcard begins with "*.".
};

/// Speaks to replicas whose settings are the same.
class ClientContext {
 public:
  /// Throws std::runtime_error with a sentence that names the key and the file.
  explicit ClientContext(const config::ReplicaTls& settings);
  SSL_CTX& get() const { return *context_; }
  const Fingerprint& fingerprint() const { return fingerprint_; }
  bool verifies() const { return verifies_; }

 private:
  Fingerprint fingerprint_{};
  ContextPtr context_;
  bool verifies_;
};

/// How to speak to one replica: the rules, the name that its certificate has to have, and its last session, with which
/// the next handshake is shorter.
class Target {
 public:
  /// `name` is a host's name or a numeric address.
  Target(std::shared_ptr<const ClientContext> context, std::string name);

  bool is(const ClientContext* context, std::string_view name) const {
    return context_.get() == context && name_ == name;
  }
  /// Returns one that is about to say hello. The target outlives it.
  SslPtr begin() const;

 private:
  static int keep_session(SSL* ssl, SSL_SESSION* session);
  friend class ClientContext;

  const std::shared_ptr<const ClientContext> context_;
  const std::string name_;
  const bool is_address_;
  mutable std::mutex mutex_;
  mutable SessionPtr session_;
};

/// The contexts of one set of settings.
class Contexts {
 public:
  Contexts() = default;
  /// Throws std::runtime_error as above. A context from the same files as before is taken over, so that its sessions go
  /// on.
  Contexts(const config::Settings& settings, const Contexts& before);

  /// Null means that listeners speak plainly.
  const std::shared_ptr<const ServerContext>& server() const { return server_; }
  /// Returns the context of a replica of these settings.
  std::shared_ptr<const ClientContext> client(const config::ReplicaTls& settings) const;

 private:
  void want(const config::Replica& replica, const Contexts& before);

  std::shared_ptr<const ServerContext> server_;
  std::vector<std::pair<config::ReplicaTls, std::shared_ptr<const ClientContext>>> clients_;
};

// Why a TLS handshake failed, as a number beside the system's errors: see net::connect_error_text().

/// The peer closed the connection within the handshake.
inline constexpr int ended_within_handshake = -2;

/// The client's address owes too much CPU: see CpuAccount.
inline constexpr int costs_too_much = -3;

/// Returns the failure for OpenSSL's X509_V_ERR_*.
constexpr int failed_verification(long code) { return -1000 - static_cast<int>(code); }
/// Returns the failure for the reason of an error of OpenSSL's SSL library.
constexpr int failed_handshake(int reason) { return -10'000 - reason; }

/// True if the reason is the alert of a peer that does not take the certificate it was shown, or was shown none.
/// TLS 1.3 tells of that after the handshake (RFC 8446, 4.4.2.4), TLS 1.2 within it.
bool refuses_certificate(int reason);

/// True if a number is such a failure, and no error of the system's.
constexpr bool is_failure(int error) { return error <= ended_within_handshake; }

/// Returns it as a part of a sentence, such as "TLS: certificate verify failed: self-signed certificate".
std::string failure_text(int failure);

}  // namespace weir::proxy::net::tls

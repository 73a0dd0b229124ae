// The keys with which session tickets are sealed. A stolen key opens every session that it sealed, so each key is
// forgotten within a day (RFC 5077, 5.5).
//
// A key seals for half a day, and opens what it sealed for another half. Handshakes of all loops read the keys under a
// lock, twice a handshake; the control thread replaces them.
#pragma once

#include <openssl/evp.h>
#include <openssl/ssl.h>

#include <array>
#include <chrono>
#include <mutex>
#include <optional>

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

}  // namespace weir::proxy::net::tls

// A client that changes its keys and sends nothing else: TLS 1.3 lets it do so without an end, a change costs it 27
// bytes, and it needs no key of weir's.
#pragma once

#include <openssl/ssl.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tests/integration/peers/socket.hpp"

namespace weir::integration {

/// A connection over which key updates go that were made before, because making them takes as long as reading them.
class KeyChanger {
 public:
  KeyChanger(std::uint16_t port, std::size_t changes);
  KeyChanger(const KeyChanger&) = delete;
  KeyChanger& operator=(const KeyChanger&) = delete;

  /// Sends them. Returns true if weir breaks the connection off.
  bool is_broken_off();

 private:
  Socket socket_;
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{SSL_CTX_new(TLS_client_method()), &SSL_CTX_free};
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{SSL_new(context_.get()), &SSL_free};
  BIO* records_ = nullptr;  ///< The SSL owns it.
};

}  // namespace weir::integration

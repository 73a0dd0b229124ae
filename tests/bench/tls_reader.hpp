// The client's end of TLS in a bench. It takes ciphertext as it was read, so that the kernel's receive stamps are those
// of the ciphertext.
#pragma once

#include <openssl/ssl.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tests/bench/relay_sockets.hpp"

namespace weir::bench {

class TlsReader {
 public:
  /// `request` is sent over `fd` after the handshake. No certificate is verified.
  TlsReader(int fd, std::string request) : ssl_(SSL_new(context())), request_(std::move(request)) {
    SSL_set_fd(ssl_.get(), fd);
  }

  /// Goes on with the handshake. Returns true once the request is out; from then on the caller reads. On a socket that
  /// blocks, that is at once.
  bool begin() {
    if (in_ != nullptr) return true;
    if (const int result = SSL_connect(ssl_.get()); result != 1) {
      if (SSL_get_error(ssl_.get(), result) != SSL_ERROR_WANT_READ) fail("the TLS handshake failed");
      return false;
    }
    if (SSL_write(ssl_.get(), request_.data(), static_cast<int>(request_.size())) != static_cast<int>(request_.size()))
      fail("a request was not taken whole");
    // OpenSSL reads no more than whole records, so nothing that it has read is lost.
    in_ = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(in_, -1);
    SSL_set0_rbio(ssl_.get(), in_);
    return true;
  }

  template <class Plain>
  void arrived(std::string_view ciphertext, Plain&& plain) {
    BIO_write(in_, ciphertext.data(), static_cast<int>(ciphertext.size()));
    std::array<char, 16 * 1024> bytes;
    for (int size; (size = SSL_read(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()))) > 0;)
      plain(std::string_view(bytes.data(), static_cast<std::size_t>(size)));
  }

 private:
  struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };
  static SSL_CTX* context() {
    static SSL_CTX* const made = SSL_CTX_new(TLS_client_method());
    return made;
  }

  std::unique_ptr<SSL, Free> ssl_;
  const std::string request_;
  BIO* in_ = nullptr;  ///< Belongs to the SSL.
};

}  // namespace weir::bench

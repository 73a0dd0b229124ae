// The client's end of TLS in a bench: it makes the handshake while it blocks, and takes ciphertext as it was read, so
// that the kernel's receive stamps are those of the ciphertext.
#pragma once

#include <openssl/ssl.h>

#include <array>
#include <memory>
#include <string_view>

#include "tests/bench/relay_sockets.hpp"

namespace weir::bench {

class TlsReader {
 public:
  /// Connects over `fd`, which blocks, and sends the request. No certificate is verified.
  TlsReader(int fd, std::string_view request) : ssl_(SSL_new(context())) {
    SSL_set_fd(ssl_.get(), fd);
    if (SSL_connect(ssl_.get()) != 1) fail("the TLS handshake failed");
    if (SSL_write(ssl_.get(), request.data(), static_cast<int>(request.size())) != static_cast<int>(request.size()))
      fail("a request was not taken whole");
    // OpenSSL reads no more than whole records, so nothing that it has read is lost.
    in_ = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(in_, -1);
    SSL_set0_rbio(ssl_.get(), in_);
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
  BIO* in_ = nullptr;  ///< It belongs to the SSL.
};

}  // namespace weir::bench

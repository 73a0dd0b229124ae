// The far end of a TLS connection, in memory: the test carries its ciphertext, in pieces of its own choice.
#pragma once

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <string>
#include <string_view>

#include "proxy/net/tls/context.hpp"

namespace weir::proxy::net::tls {

inline std::string test_file(const std::string& name) { return std::string(WEIR_TEST_DATA) + "/tls/" + name; }

inline config::Certificate test_certificate(const std::string& name) {
  return {test_file(name + ".pem"), test_file(name + ".key")};
}

class TlsPeer {
 public:
  /// A peer that waits for a hello shows this certificate; one that says hello trusts tests/data/tls/ca.pem.
  static TlsPeer server(const std::string& certificate) { return TlsPeer(certificate, true); }
  /// A server that goes on with a context, its ticket keys included.
  static TlsPeer server(SSL_CTX* context) {
    SSL_CTX_up_ref(context);
    TlsPeer peer{ContextPtr(context), true};
    return peer;
  }
  static TlsPeer client(const std::string& server_name = "localhost") { return TlsPeer(server_name, false); }
  TlsPeer(TlsPeer&&) = default;

  SSL_CTX& context() { return *context_; }
  SSL& ssl() {
    begin();
    return *ssl_;
  }
  void accept(std::string_view ciphertext) {
    begin();
    BIO_write(in_, ciphertext.data(), static_cast<int>(ciphertext.size()));
    work();
  }
  /// Returns the ciphertext that is to be carried.
  std::string take_ciphertext() {
    begin();
    work();
    std::string all(BIO_ctrl_pending(out_), '\0');
    if (!all.empty()) BIO_read(out_, all.data(), static_cast<int>(all.size()));
    return all;
  }
  void write(std::string_view text) {
    begin();
    EXPECT_EQ(SSL_write(ssl_.get(), text.data(), static_cast<int>(text.size())), static_cast<int>(text.size()));
  }
  void say_end() { SSL_shutdown(ssl_.get()); }

  bool is_open() const { return ssl_ && SSL_is_init_finished(ssl_.get()) == 1; }
  std::string got;         ///< The text that it has read.
  std::string error;       ///< Why it has failed.
  bool heard_end = false;  ///< A close_notify has come.
  int records = 0;         ///< So many records of application data have come.

 private:
  TlsPeer(ContextPtr context, bool server) : context_(std::move(context)), server_(server) {}
  TlsPeer(const std::string& name, bool server) : context_(SSL_CTX_new(TLS_method())), server_(server) {
    if (server) {
      EXPECT_EQ(SSL_CTX_use_certificate_chain_file(context_.get(), test_file(name + ".pem").c_str()), 1);
      EXPECT_EQ(SSL_CTX_use_PrivateKey_file(context_.get(), test_file(name + ".key").c_str(), SSL_FILETYPE_PEM), 1);
    } else {
      server_name_ = name;
      EXPECT_EQ(SSL_CTX_load_verify_file(context_.get(), test_file("ca.pem").c_str()), 1);
      SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    }
  }
  /// The context may be changed before.
  void begin() {
    if (ssl_) return;
    ssl_.reset(SSL_new(context_.get()));
    in_ = BIO_new(BIO_s_mem());
    out_ = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl_.get(), in_, out_);
    if (server_) {
      SSL_set_accept_state(ssl_.get());
    } else {
      SSL_set_tlsext_host_name(ssl_.get(), server_name_.c_str());
      SSL_set1_host(ssl_.get(), server_name_.c_str());
      SSL_set_connect_state(ssl_.get());
    }
  }
  void work() {
    ERR_clear_error();
    std::array<char, 20'000> bytes;
    for (;;) {
      const int size = SSL_read(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
      if (size > 0) {
        ++records;
        got.append(bytes.data(), static_cast<std::size_t>(size));
        continue;
      }
      const int why = SSL_get_error(ssl_.get(), size);
      if (why == SSL_ERROR_ZERO_RETURN) heard_end = true;
      if (why == SSL_ERROR_SSL && error.empty()) {
        const auto* text = ERR_reason_error_string(ERR_peek_error());
        error = text != nullptr ? text : "an error";
      }
      return;
    }
  }

  ContextPtr context_;
  bool server_;
  std::string server_name_;
  BIO *in_ = nullptr, *out_ = nullptr;  ///< The SSL owns them.
  SslPtr ssl_;
};

}  // namespace weir::proxy::net::tls

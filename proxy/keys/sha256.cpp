#include "proxy/keys/sha256.hpp"

#include <openssl/evp.h>

#include <memory>
#include <new>

namespace weir::proxy::keys {
namespace {

template <auto free>
struct Freed {
  void operator()(auto* one) const { free(one); }
};

template <class One>
One* there(One* one) {
  if (one == nullptr) throw std::bad_alloc();
  return one;
}

/// OpenSSL looks its function up by name for each call of SHA256(), and makes a context. Both cost more than the hash.
EVP_MD_CTX& context_of_thread() {
  // A failed initialisation is tried again by the next call.
  static const std::unique_ptr<EVP_MD, Freed<::EVP_MD_free>> function(
      there(::EVP_MD_fetch(nullptr, "SHA256", nullptr)));
  thread_local const std::unique_ptr<EVP_MD_CTX, Freed<::EVP_MD_CTX_free>> context(there(::EVP_MD_CTX_new()));
  if (::EVP_DigestInit_ex2(context.get(), function.get(), nullptr) != 1) throw std::bad_alloc();
  return *context;
}

}  // namespace

Sha256 sha256(std::string_view bytes) {
  Sha256 hash;
  auto& context = context_of_thread();
  if (::EVP_DigestUpdate(&context, bytes.data(), bytes.size()) != 1 ||
      ::EVP_DigestFinal_ex(&context, hash.data(), nullptr) != 1)
    throw std::bad_alloc();
  return hash;
}

std::string hex(const Sha256& hash) {
  std::string digits;
  for (const auto byte : hash) digits += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return digits;
}

}  // namespace weir::proxy::keys

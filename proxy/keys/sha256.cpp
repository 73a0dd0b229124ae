#include "proxy/keys/sha256.hpp"

#include <openssl/sha.h>

namespace weir::proxy::keys {

Sha256 sha256(std::string_view bytes) {
  static_assert(sizeof(Sha256) == SHA256_DIGEST_LENGTH);
  Sha256 hash;
  ::SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), hash.data());
  return hash;
}

std::string hex(const Sha256& hash) {
  std::string digits;
  for (const auto byte : hash) digits += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return digits;
}

}  // namespace weir::proxy::keys

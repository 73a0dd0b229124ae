#include "proxy/net/tls/ticket_keys.hpp"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <algorithm>
#include <span>
#include <stdexcept>

namespace weir::proxy::net::tls {
namespace {

// The results of a callback for ticket keys (SSL_CTX_set_tlsext_ticket_key_evp_cb(3)).
constexpr int failed = -1, unknown = 0, known = 1, known_and_renewed = 2;

bool set_mac(EVP_MAC_CTX& mac, const std::array<unsigned char, 32>& key) {
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[]{
      OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, const_cast<unsigned char*>(key.data()), key.size()),
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0), OSSL_PARAM_construct_end()};
  return EVP_MAC_CTX_set_params(&mac, parameters) == 1;
}

bool fill(std::span<unsigned char> bytes) { return RAND_priv_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1; }

template <class Key>
void wipe(Key& key) {
  OPENSSL_cleanse(&key, sizeof key);
}

}  // namespace

std::optional<TicketKeys::Key> TicketKeys::make() {
  Key key;
  if (!fill(key.name) || !fill(key.cipher) || !fill(key.mac)) return std::nullopt;
  return key;
}

TicketKeys::TicketKeys(metrics::Moment now) : made_(now) {
  const auto key = make();
  if (!key) throw std::runtime_error("OpenSSL gives no random bytes for session tickets");
  current_ = *key;
}

TicketKeys::~TicketKeys() {
  wipe(current_);
  if (before_) wipe(*before_);
}

void TicketKeys::tick(metrics::Moment now) {
  const std::lock_guard lock(mutex_);
  if (now - made_ < seals_for) return;
  auto next = make();
  if (!next) return;  // Tried again at the next look.
  if (before_) wipe(*before_);
  before_ = current_;
  if (now - made_ >= opens_for) {
    wipe(*before_);
    before_.reset();
  }
  current_ = *next;
  wipe(*next);
  made_ = now;
}

void TicketKeys::serve(SSL_CTX& context) {
  SSL_CTX_set_app_data(&context, this);
  SSL_CTX_set_tlsext_ticket_key_evp_cb(&context, &TicketKeys::use);
}

int TicketKeys::use(SSL* ssl, unsigned char* name, unsigned char* iv, EVP_CIPHER_CTX* cipher, EVP_MAC_CTX* mac,
                    int seals) {
  const auto& keys = *static_cast<const TicketKeys*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  const std::lock_guard lock(keys.mutex_);
  // With TLS 1.3 each resumption brings another ticket, so that no two connections can be told to be one client's.
  return seals != 0 ? keys.seal(name, iv, *cipher, *mac)
                    : keys.open(name, iv, *cipher, *mac, SSL_version(ssl) >= TLS1_3_VERSION);
}

int TicketKeys::seal(unsigned char* name, unsigned char* iv, EVP_CIPHER_CTX& cipher, EVP_MAC_CTX& mac) const {
  const auto* const kind = EVP_aes_256_cbc();
  if (RAND_bytes(iv, EVP_CIPHER_get_iv_length(kind)) != 1) return failed;
  std::ranges::copy(current_.name, name);
  const bool set = EVP_EncryptInit_ex(&cipher, kind, nullptr, current_.cipher.data(), iv) == 1;
  return set && set_mac(mac, current_.mac) ? known : failed;
}

int TicketKeys::open(const unsigned char* name, const unsigned char* iv, EVP_CIPHER_CTX& cipher, EVP_MAC_CTX& mac,
                     bool once) const {
  const auto is = [name](const Key& key) { return std::ranges::equal(key.name, std::span(name, key.name.size())); };
  const bool is_current = is(current_);
  if (!is_current && (!before_ || !is(*before_))) return unknown;
  const auto& key = is_current ? current_ : *before_;
  const bool set = EVP_DecryptInit_ex(&cipher, EVP_aes_256_cbc(), nullptr, key.cipher.data(), iv) == 1;
  if (!set || !set_mac(mac, key.mac)) return failed;
  return is_current && !once ? known : known_and_renewed;
}

}  // namespace weir::proxy::net::tls

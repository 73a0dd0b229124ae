#include "proxy/control/admin_token.hpp"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <array>
#include <utility>

#include "config/network.hpp"
#include "proxy/http/head.hpp"

namespace weir::proxy::control {
namespace {

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

Digest digest_of(std::string_view text) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

}  // namespace

bool bears_token(std::span<const std::string_view> authorization, const std::string& token) {
  constexpr std::string_view scheme = "Bearer ";
  if (authorization.size() != 1) return false;
  const auto field = authorization.front();
  if (field.size() < scheme.size() || !proxy::http::same_token(field.substr(0, scheme.size()), scheme)) return false;
  // Digests have one length, and nobody can choose a token whose digest begins as the right one does.
  const auto sent = digest_of(field.substr(scheme.size())), wanted = digest_of(token);
  return CRYPTO_memcmp(sent.data(), wanted.data(), wanted.size()) == 0;
}

std::string WrongTokens::add(const net::PeerAddress& address, metrics::Moment now) {
  accounts_.charge(address, 1, forgiven_a_second, now);
  if (now - said_ < std::chrono::minutes(1)) return ++unsaid_, "";
  said_ = now;
  const auto others = std::exchange(unsaid_, 0);
  const auto from = address == net::PeerAddress{} ? "a Unix-domain socket" : config::to_text(config::Network{address});
  return "a wrong token was sent to the admin listener from " + from +
         (others > 0 ? ", and " + std::to_string(others) + " more since this was last said" : "") +
         " (said at most once a minute)";
}

}  // namespace weir::proxy::control

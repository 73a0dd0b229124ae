#include "proxy/admin/guard.hpp"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "config/address.hpp"
#include "proxy/http/head.hpp"

namespace weir::proxy::admin {
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

namespace {

std::string lower(std::string_view text) {
  std::string all(text);
  std::ranges::transform(all, all.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return all;
}

/// Returns the name or address of "name:port" and "[address]:port"; "" for anything else.
std::string host_of(std::string_view authority) {
  const auto is_port = [](std::string_view text) {
    return text.size() <= 5 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  };
  if (authority.starts_with('[')) {
    const auto end = authority.find(']');
    if (end == authority.npos) return "";
    const auto rest = authority.substr(end + 1);
    if (!rest.empty() && (rest.front() != ':' || !is_port(rest.substr(1)))) return "";
    return lower(authority.substr(1, end - 1));
  }
  const auto colon = authority.find(':');
  if (colon != authority.npos && !is_port(authority.substr(colon + 1))) return "";
  return lower(authority.substr(0, colon));
}

bool is_json(std::string_view content_type) {
  auto type = lower(content_type.substr(0, content_type.find(';')));
  while (type.ends_with(' ') || type.ends_with('\t')) type.pop_back();
  return type == "application/json";
}

}  // namespace

std::string why_strange_host(const Sender& sender, const std::optional<config::ListenAddress>& listen) {
  const auto host = sender.host.size() == 1 ? host_of(sender.host.front()) : std::string();
  if (!host.empty() && (config::is_loopback(host) || (listen && host == listen->host))) return "";
  return "the Host of this request is not weir's own: ask at a loopback address or at \"localhost\"";
}

std::string why_no_change(const Sender& sender, const std::optional<config::ListenAddress>& listen) {
  if (auto why = why_strange_host(sender, listen); !why.empty()) return why;
  for (const auto origin : sender.origin)
    if (lower(origin) != "http://" + lower(sender.host.front()))
      return "the Origin of this request is another site: a page of a browser may not change weir";
  if (sender.content_type.size() != 1 || !is_json(sender.content_type.front()))
    return "a request that changes weir needs the field \"Content-Type: application/json\"";
  return "";
}

}  // namespace weir::proxy::admin

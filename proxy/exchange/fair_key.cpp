#include "proxy/exchange/fair_key.hpp"

#include <algorithm>
#include <random>
#include <string_view>

namespace weir::proxy::exchange {
namespace {

/// A hash begins with one of these tags, so that nobody's credential is another's address.
constexpr char of_address = 'a', of_credential = 'c', of_header = 'h', of_key = 'k';

std::uint64_t hash_of(const SipKey& key, char tag, std::string_view bytes) {
  metrics::SipHash hash(key);
  hash.add(std::string_view(&tag, 1));
  hash.add(bytes);
  return hash.value();
}

std::uint64_t hash_of(const SipKey& key, const net::PeerAddress& address) {
  const std::size_t size = net::is_ipv4(address) ? address.size() : 8;
  return hash_of(key, of_address, {reinterpret_cast<const char*>(address.data()), size});
}

}  // namespace

SipKey make_sip_key() {
  std::random_device device;
  const auto half = [&device] { return std::uint64_t{device()} << 32 | device(); };
  const auto first = half();
  return {first, half()};
}

std::uint64_t fair_key(const SipKey& key, const config::FairBy& by, const http::RequestHead& head,
                       const net::PeerAddress& address, std::string_view key_name) {
  if (by.what == config::FairBy::What::key && !key_name.empty()) return hash_of(key, of_key, key_name);
  const std::string_view said = by.what == config::FairBy::What::header ? head[by.header] : std::string_view();
  return said.empty() ? hash_of(key, address) : hash_of(key, of_header, said);
}

std::uint64_t session_of(std::span<const config::SessionBy> by, const http::RequestHead& head,
                         const metrics::Names& names, std::string_view key_name) {
  using What = config::SessionBy::What;
  using metrics::name_key, metrics::name_of_hash;
  for (const auto& one : by) {
    if (one.what == What::key && !key_name.empty()) return name_of_hash(hash_of(name_key, of_key, key_name));
    const auto said = one.what == What::header ? head[one.name] : std::string_view();
    if (!said.empty()) return name_of_hash(hash_of(name_key, of_header, said));
    if (one.what != What::body) continue;
    const auto member = std::ranges::find(config::session_members, one.name) - config::session_members.begin();
    const auto first = static_cast<std::ptrdiff_t>(metrics::NamedBy::user);
    if (const auto name = names[static_cast<std::size_t>(first + member)]; name != 0) return name;
  }
  return 0;
}

std::optional<std::uint64_t> credential_of(const SipKey& key, const http::RequestHead& head,
                                           std::string_view key_name) {
  if (!key_name.empty()) return hash_of(key, of_key, key_name);
  std::string_view said = head[http::FieldName::authorization];
  if (said.empty()) said = head[http::FieldName::x_api_key];
  return said.empty() ? std::nullopt : std::optional(hash_of(key, of_credential, said));
}

std::uint64_t sender_of(const SipKey& key, const http::RequestHead& head, const net::PeerAddress& address,
                        std::string_view key_name) {
  return credential_of(key, head, key_name).value_or(hash_of(key, address));
}

std::uint64_t prefix_seed(const SipKey& key, config::PrefixIsolation isolation, std::string_view key_name) {
  return isolation == config::PrefixIsolation::key ? hash_of(key, of_key, key_name) : 0;
}

}  // namespace weir::proxy::exchange

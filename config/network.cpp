#include "config/network.hpp"

#include <algorithm>
#include <boost/url/ipv4_address.hpp>
#include <boost/url/ipv6_address.hpp>
#include <charconv>

namespace weir::config {
namespace {

constexpr std::string_view network_form =
    "must be an address or a network, such as \"10.0.0.7\", \"10.0.0.0/8\" or \"fd00::/8\"; or \"unix:\" for all who "
    "come by a Unix-domain socket";
constexpr std::string_view by_unix_socket = "unix:";
constexpr std::array<std::uint8_t, 12> ipv4_prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr unsigned ipv4_prefix_bits = 96, all_bits = 128;

bool is_ipv4(const AddressBytes& address) { return std::ranges::equal(ipv4_prefix, std::span(address).first<12>()); }

/// Returns the address with all bits behind the first `bits` cleared.
AddressBytes masked(AddressBytes address, unsigned bits) {
  for (unsigned i = 0; i < address.size(); ++i) {
    const unsigned kept = bits > 8 * i ? std::min(bits - 8 * i, 8u) : 0;
    address[i] = static_cast<std::uint8_t>(address[i] & (0xff00u >> kept));
  }
  return address;
}

}  // namespace

std::optional<AddressBytes> parse_address_bytes(std::string_view text) {
  AddressBytes bytes{};
  if (const auto v4 = boost::urls::parse_ipv4_address(text)) {
    std::ranges::copy(ipv4_prefix, bytes.begin());
    std::ranges::copy(v4->to_bytes(), bytes.begin() + ipv4_prefix.size());
    return bytes;
  }
  const auto v6 = boost::urls::parse_ipv6_address(text);
  if (!v6) return std::nullopt;
  std::ranges::copy(v6->to_bytes(), bytes.begin());
  return bytes;
}

Parsed<Network> parse_network(std::string_view text) {
  if (text == by_unix_socket) return Network{};
  const auto slash = text.find('/');
  const auto base = parse_address_bytes(text.substr(0, slash));
  if (!base) return Problem{std::string(network_form)};
  // "::ffff:10.0.0.0/104" counts its bits as IPv6 does.
  const unsigned before = text.substr(0, slash).find(':') == std::string_view::npos ? ipv4_prefix_bits : 0;
  unsigned bits = all_bits - before;
  if (slash != std::string_view::npos) {
    const auto digits = text.substr(slash + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
    if (error != std::errc{} || end != digits.data() + digits.size() || bits > all_bits - before)
      return Problem{"behind the / stands how many bits count, from 0 to " + std::to_string(all_bits - before)};
  }
  Network network{*base, bits + before};
  if (network == Network{}) return Problem{std::string(network_form)};
  const auto start = masked(*base, network.bits);
  if (start != *base) {
    network.base = start;
    return Problem{"has bits behind those that count; write \"" + to_text(network) + "\" for this network"};
  }
  return network;
}

std::string to_text(const Network& network) {
  if (network == Network{}) return std::string(by_unix_socket);
  const bool v4 = is_ipv4(network.base) && network.bits >= ipv4_prefix_bits;
  const unsigned bits = network.bits - (v4 ? ipv4_prefix_bits : 0);
  std::string text;
  if (v4) {
    boost::urls::ipv4_address::bytes_type bytes{};
    std::copy_n(network.base.begin() + ipv4_prefix.size(), bytes.size(), bytes.begin());
    text = std::string(boost::urls::ipv4_address(bytes).to_string());
  } else {
    text = std::string(boost::urls::ipv6_address(network.base).to_string());
  }
  return bits == (v4 ? 32 : all_bits) ? text : text + '/' + std::to_string(bits);
}

bool contains(const Network& network, const AddressBytes& address) {
  return masked(address, network.bits) == network.base;
}

bool contains(std::span<const Network> networks, const AddressBytes& address) {
  return std::ranges::any_of(networks, [&](const Network& one) { return contains(one, address); });
}

}  // namespace weir::config

#include "config/address.hpp"

#include <algorithm>
#include <boost/url/ipv4_address.hpp>
#include <boost/url/ipv6_address.hpp>
#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>
#include <charconv>
#include <optional>

namespace weir::config {
namespace {

constexpr std::string_view address_form =
    "must be a numeric address and a port, such as \"127.0.0.1:8080\", \"[::1]:8080\", or \"0.0.0.0:8080\" for every "
    "interface; or the path of a Unix-domain socket, such as \"unix:/run/weir/weir.sock\"";

std::optional<std::uint16_t> port_in(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return port;
}

std::string canonical_host(std::string_view text) {
  if (text == "localhost") return "127.0.0.1";
  if (text.starts_with('[') && text.ends_with(']')) {
    const auto v6 = boost::urls::parse_ipv6_address(text.substr(1, text.size() - 2));
    return v6 ? std::string(v6->to_string()) : std::string();
  }
  const auto v4 = boost::urls::parse_ipv4_address(text);
  return v4 ? std::string(v4->to_string()) : std::string();
}

bool is_v6(std::string_view host) { return host.find(':') != std::string_view::npos; }

bool takes_all(std::string_view host) { return host == "0.0.0.0" || host == "::"; }

Parsed<ListenAddress> parse_unix_path(std::string_view path) {
  if (!path.starts_with('/') || path.ends_with('/') || path.find('\0') != std::string_view::npos)
    return Problem{"the path of a Unix-domain socket must be absolute, such as \"unix:/run/weir/weir.sock\""};
  if (path.size() > longest_unix_path)
    return Problem{"the path of a Unix-domain socket must have at most " + std::to_string(longest_unix_path) +
                   " bytes, for Linux takes no longer one"};
  ListenAddress address;
  address.unix_path = path;
  return address;
}

}  // namespace

Parsed<ListenAddress> parse_address(std::string_view text) {
  if (text.starts_with(unix_scheme)) return parse_unix_path(text.substr(unix_scheme.size()));
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return Problem{std::string(address_form)};
  const auto host = canonical_host(text.substr(0, colon));
  if (host.empty()) return Problem{std::string(address_form)};
  const auto port = port_in(text.substr(colon + 1));
  if (!port) return Problem{"the port must be a whole number from 0 to 65535"};
  return ListenAddress{host, *port};
}

std::string to_text(const ListenAddress& address) {
  if (!address.unix_path.empty()) return std::string(unix_scheme) + address.unix_path;
  const auto host = is_v6(address.host) ? '[' + address.host + ']' : address.host;
  return host + ':' + std::to_string(address.port);
}

bool is_numeric(std::string_view host) {
  return boost::urls::parse_ipv4_address(host).has_value() || boost::urls::parse_ipv6_address(host).has_value();
}

bool is_loopback(std::string_view host) {
  if (host == "localhost") return true;
  if (const auto v4 = boost::urls::parse_ipv4_address(host)) return v4->to_bytes()[0] == 127;
  if (const auto v6 = boost::urls::parse_ipv6_address(host)) return v6->is_loopback();
  return false;
}

bool is_local(const ListenAddress& address) { return !address.unix_path.empty() || is_loopback(address.host); }

std::string url_of(const ListenAddress& address) {
  return address.unix_path.empty() ? "http://" + to_text(address) : to_text(address);
}

bool overlap(const ListenAddress& one, const ListenAddress& other) {
  if (!one.unix_path.empty() || !other.unix_path.empty()) return one.unix_path == other.unix_path;
  if (one.port != other.port || one.port == 0 || is_v6(one.host) != is_v6(other.host)) return false;
  return one.host == other.host || takes_all(one.host) || takes_all(other.host);
}

bool leads_to(const ReplicaUrl& url, const ListenAddress& listener) {
  if (!url.unix_path.empty() || !listener.unix_path.empty()) return url.unix_path == listener.unix_path;
  if (url.port != listener.port) return false;
  const std::string_view host = url.host == "localhost" ? "127.0.0.1" : std::string_view(url.host);
  return host == listener.host || (takes_all(listener.host) && is_loopback(host));
}

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

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

namespace {

/// A host name has letters, digits, '.', '-', and the '_' of container names. A name of digits and dots only is an IPv4
/// address that did not parse, so it is refused.
bool is_host_name(std::string_view host) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
           c == '_';
  };
  return !host.empty() && std::all_of(host.begin(), host.end(), allowed) &&
         host.find_first_not_of("0123456789.") != std::string_view::npos;
}

/// Returns the part of a path with which a client's base url would end. weir puts the request's whole path behind a
/// replica's.
std::string_view api_part(std::string_view path) {
  for (const std::string_view part : {"/v1", "/v1/chat/completions", "/v1/completions"}) {
    if (path.ends_with(part)) return part;
  }
  return {};
}

Parsed<ReplicaUrl> at_path(std::string_view path) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (!path.starts_with('/') || path.starts_with("//") || path.ends_with('/') || path.size() > longest_unix_path ||
      std::any_of(path.begin(), path.end(), is_control))
    return Problem{"must be unix: and the whole path of a socket, of at most " + std::to_string(longest_unix_path) +
                   " bytes, such as \"unix:/run/vllm.sock\"; no prefix can follow it"};
  ReplicaUrl url;
  url.port = 0;
  url.authority = "localhost";
  url.unix_path = path;
  return url;
}

}  // namespace

Parsed<ReplicaUrl> parse_replica_url(std::string_view text) {
  if (text.starts_with(unix_scheme)) return at_path(text.substr(unix_scheme.size()));
  const auto scheme = lower(text.substr(0, text.find("://")));
  if (scheme != "http" && scheme != "https")
    return Problem{
        "must begin with http://, https:// or unix:/, such as \"http://127.0.0.1:8001\" or \"unix:/run/vllm.sock\""};

  const auto parsed = boost::urls::parse_uri(text);
  if (!parsed)
    return Problem{"must be " + scheme + "://HOST:PORT, with a path if need be, such as \"http://127.0.0.1:8001\""};
  if (parsed->has_userinfo()) return Problem{"must hold no user name and no password; weir sends neither to a replica"};
  if (parsed->has_query() || parsed->has_fragment()) return Problem{"must hold no \"?\" and no \"#\""};

  ReplicaUrl url;
  url.tls = scheme == "https";
  if (url.tls) url.port = 443;
  const auto type = parsed->host_type();
  const std::string_view host = parsed->encoded_host_address();
  const bool is_address = type == boost::urls::host_type::ipv4 || type == boost::urls::host_type::ipv6;
  if (!is_address && !(type == boost::urls::host_type::name && is_host_name(host))) {
    return Problem{"the host must be a name or an address, such as \"gpu-box\", \"10.0.0.7\" or \"[fd00::7]\""};
  }
  const auto v6 = boost::urls::parse_ipv6_address(host);
  url.host = v6 ? std::string(v6->to_string()) : lower(host);

  // Boost.URL 1.81 lets a port wrap at 65536 and takes what follows it as a path without a slash, so both are compared
  // as text.
  std::string_view path = parsed->encoded_path();
  const bool whole_port =
      !parsed->has_port() || (parsed->port_number() != 0 && parsed->port() == std::to_string(parsed->port_number()));
  if (!whole_port || !(path.empty() || path.starts_with('/'))) {
    return Problem{"the port must be a whole number from 1 to 65535"};
  }
  if (parsed->has_port()) url.port = parsed->port_number();
  url.authority = std::string_view(parsed->encoded_host_and_port());
  while (path.ends_with('/')) path.remove_suffix(1);
  if (const auto part = api_part(path); !part.empty()) {
    path.remove_suffix(part.size());
    return Problem{
        "weir puts each request's own path, such as /v1/chat/completions, behind this; write the base url, \"" +
        scheme + "://" + url.authority + std::string(path) + '"'};
  }
  url.prefix = path;
  return url;
}

std::string to_text(const ReplicaUrl& url) {
  if (!url.unix_path.empty()) return std::string(unix_scheme) + url.unix_path;
  return (url.tls ? "https://" : "http://") + url.authority + url.prefix;
}

std::string without_credentials(std::string_view text) {
  const auto scheme = text.find("://");
  const auto at = text.rfind('@');
  const auto query = text.find_first_of(scheme == text.npos ? "?" : "?#");
  const auto hidden_behind = [](std::string_view shown, std::size_t mark) {
    return mark < shown.size() - 1 ? std::string(shown.substr(0, mark + 1)) + "***" : std::string(shown);
  };
  const bool no_scheme = scheme == text.npos || at < scheme;
  if (at == text.npos || (no_scheme && text.substr(0, at).find(':') == text.npos)) return hidden_behind(text, query);
  const auto user = std::string(text.substr(0, no_scheme ? 0 : scheme + 3)) + "***";
  if (query < at) return user;  // Nobody can tell whether a password holds the ?, or a query the @.
  return user + hidden_behind(text.substr(at), query == text.npos ? query : query - at);
}

}  // namespace weir::config

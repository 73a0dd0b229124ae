#include "config/address.hpp"

#include <boost/url/ipv4_address.hpp>
#include <boost/url/ipv6_address.hpp>
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

}  // namespace weir::config

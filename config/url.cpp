#include "config/url.hpp"

#include <algorithm>
#include <boost/url/ipv6_address.hpp>
#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>

#include "config/address.hpp"

namespace weir::config {

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

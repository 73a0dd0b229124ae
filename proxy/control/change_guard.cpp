#include "proxy/control/change_guard.hpp"

#include <algorithm>
#include <cctype>

#include "config/address.hpp"

namespace weir::proxy::control {
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

}  // namespace weir::proxy::control

#include "proxy/http/forwarded.hpp"

#include <algorithm>
#include <optional>

#include "config/network.hpp"

namespace weir::proxy::http {
namespace {

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// Reads an address. Some proxies write a port behind it.
std::optional<net::PeerAddress> address_in(std::string_view text) {
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == text.npos) return std::nullopt;
    const auto rest = text.substr(end + 1);
    if (!rest.empty() && (rest.front() != ':' || !is_port(rest.substr(1)))) return std::nullopt;
    const auto inside = text.substr(1, end - 1);
    return inside.find(':') == inside.npos ? std::nullopt : config::parse_address_bytes(inside);
  }
  const auto colon = text.find(':');
  const bool one_colon = colon != text.npos && text.find(':', colon + 1) == text.npos;
  if (one_colon)
    return is_port(text.substr(colon + 1)) ? config::parse_address_bytes(text.substr(0, colon)) : std::nullopt;
  return config::parse_address_bytes(text);
}

}  // namespace

net::PeerAddress client_address(const net::PeerAddress& peer, const RequestHead& head,
                                std::span<const config::Network> trusted) {
  auto last = peer;
  if (trusted.empty() || !config::contains(trusted, peer)) return last;
  for (auto field = head.fields.rbegin(); field != head.fields.rend(); ++field) {
    if (field->known != FieldName::x_forwarded_for) continue;
    auto rest = field->value;
    for (bool more = true; more;) {
      const auto comma = rest.rfind(',');
      more = comma != rest.npos;
      const auto one = trim(more ? rest.substr(comma + 1) : rest);
      if (more) rest = rest.substr(0, comma);
      if (one.empty()) continue;  // RFC 9110, 5.6.1: empty elements of a list mean nothing.
      const auto address = address_in(one);
      if (!address) return last;
      last = *address;
      if (!config::contains(trusted, last)) return last;
    }
  }
  return last;
}

bool is_forwarding_field(const HeaderField& field) {
  constexpr std::string_view prefix = "x-forwarded-";
  return field.known == FieldName::forwarded || field.known == FieldName::x_real_ip ||
         same_token(field.name.substr(0, prefix.size()), prefix);
}

std::string in_forwarded_for(const net::PeerAddress& peer) {
  return peer == net::PeerAddress{} ? std::string() : config::to_text(config::Network{peer});
}

std::string forwarded_for(const RequestHead& head, const Forwarded& way) {
  std::string all;
  const auto add = [&all](std::string_view one) {
    if (!all.empty() && !one.empty()) all += ", ";
    all += one;
  };
  if (way.believed) {
    for (const auto& field : head.fields)
      if (field.known == FieldName::x_forwarded_for) add(field.value);
  }
  add(way.peer);
  return all;
}

}  // namespace weir::proxy::http

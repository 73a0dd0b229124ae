#include "proxy/http/credential.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <random>

#include "config/address.hpp"
#include "proxy/http/head.hpp"
#include "proxy/http/routes.hpp"

namespace weir::proxy::http {
namespace {

constexpr std::array<std::string_view, 6> credential_parameters{"key",    "api_key", "api-key",
                                                                "apikey", "token",   "access_token"};

/// A client that needs a key for weir sends none of these to a replica.
bool ends_here(FieldName name) {
  return name == FieldName::authorization || name == FieldName::x_api_key || name == FieldName::host ||
         name == FieldName::content_length || name == FieldName::expect;
}

/// The shortest text that is looked up as a key wherever it stands.
constexpr std::size_t shortest_key = 16;

/// The most texts of a head that are looked up; each costs a hash. Beyond that, all texts that may be keys are cut out.
constexpr std::size_t most_look_ups = 64;

std::size_t first_blank(std::string_view text) { return std::min(text.find(' '), text.find('\t')); }

/// Returns the text behind the first blanks; all of it if there are none.
std::string_view behind_scheme(std::string_view value) {
  const auto blank = first_blank(value);
  return blank == value.npos ? value : value.substr(value.find_first_not_of(" \t", blank));
}

/// Returns the target without the parameters for which `is_unwanted` of the parameter, its name and its value.
template <class IsUnwanted>
std::string without_parameters(std::string_view target, const IsUnwanted& is_unwanted) {
  const auto question = target.find('?');
  std::string kept(target.substr(0, question));
  if (question == std::string_view::npos) return kept;
  char separator = '?';
  for (auto rest = target.substr(question);;) {
    rest.remove_prefix(1);
    const auto end = std::min(rest.find('&'), rest.size());
    const auto parameter = rest.substr(0, end);
    if (!is_unwanted(parameter, parameter.substr(0, parameter.find('=')), parameter.substr(parameter.find('=') + 1))) {
      kept.append(1, separator).append(parameter);
      separator = '&';
    }
    if (end == rest.size()) return kept;
    rest.remove_prefix(end);
  }
}

/// Returns the text with its escapes decoded. A `%` that begins no escape stays.
std::string unescaped(std::string_view text) {
  std::string decoded;
  for (; !text.empty(); text.remove_prefix(1)) {
    const auto byte = escaped_byte(text);
    decoded += byte ? static_cast<char>(*byte) : text.front();
    if (byte) text.remove_prefix(2);
  }
  return decoded;
}

}  // namespace

std::string_view credential_of(const RequestHead& head) {
  constexpr std::string_view bearer = "bearer ";
  const auto authorization = head[FieldName::authorization];
  if (authorization.size() <= bearer.size() || !same_token(authorization.substr(0, bearer.size()), bearer))
    return head[FieldName::x_api_key];
  const auto key = authorization.substr(bearer.size());
  const auto begin = key.find_first_not_of(' ');
  return begin == std::string_view::npos ? std::string_view() : key.substr(begin);
}

/// OpenAI's and Anthropic's fields, and those that gateways in front of engines ask for: Azure, Google, AWS and OAuth
/// proxies. Proxy-Authorization goes to no replica in any case.
bool is_credential(FieldName name) {
  switch (name) {
    case FieldName::api_key:
    case FieldName::authorization:
    case FieldName::cookie:
    case FieldName::ocp_apim_subscription_key:
    case FieldName::x_access_token:
    case FieldName::x_amz_security_token:
    case FieldName::x_api_key:
    case FieldName::x_auth_token:
    case FieldName::x_goog_api_key:
      return true;
    default:
      return false;
  }
}

std::string_view other_credential_of(const RequestHead& head) {
  const auto other = head[FieldName::x_api_key], shown = credential_of(head);
  return shown.empty() || other == shown ? std::string_view() : other;
}

bool holds_key(std::string_view text, std::string_view key) {
  constexpr std::size_t shortest_part = 8;
  if (!key.empty() && (key.size() < shortest_part ? text == key : text.find(key) != text.npos)) return true;
  constexpr std::string_view start = "weir-";
  for (auto at = text.find(start); at != text.npos; at = text.find(start, at + 1)) {
    const auto rest = text.substr(at + start.size());
    if (std::ranges::find_if_not(rest, is_word) - rest.begin() >= 43) return true;
  }
  return false;
}

std::string without_credentials(std::string_view target, std::string_view key) {
  const auto shows_key = [key](std::string_view text) {
    return holds_key(text, key) || holds_key(unescaped(text), key);
  };
  return without_parameters(target, [&](std::string_view, std::string_view name, std::string_view value) {
    return is_among(credential_parameters, name) || (!key.empty() && (shows_key(name) || shows_key(value)));
  });
}

bool may_be_key(std::string_view text) {
  if (text.size() < shortest_key || first_blank(text) != text.npos) return false;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto in_words = [&](char c) { return !is_digit(c) && !(c >= 'A' && c <= 'Z'); };
  if (std::all_of(text.begin(), text.end(), in_words)) return false;
  const auto slash = text.rfind('/');
  const auto version = slash == text.npos ? std::string_view() : text.substr(slash + 1);
  const bool program = version.find('.') != version.npos &&
                       std::all_of(version.begin(), version.end(), [&](char c) { return is_digit(c) || c == '.'; });
  const bool traceparent = text.size() == 55 && text[2] == '-' && text[35] == '-' && text[52] == '-';
  return !program && !traceparent;
}

bool cut_keys(std::string& head_bytes, const RequestHead& head, const IsKey& is_key) {
  bool any = false;
  std::size_t looked_up = 0;
  const auto is_right = [&](std::string_view text) { return ++looked_up > most_look_ups || is_key(text); };
  for (auto field = head.fields.rbegin(); field != head.fields.rend(); ++field) {
    if (field->value.size() < shortest_key) continue;
    const auto text = behind_scheme(field->value);
    if (!may_be_key(text) || ends_here(field->known)) continue;
    if (is_hop_by_hop(*field, {}) || !is_right(text)) continue;
    const auto begin = static_cast<std::size_t>(field->name.data() - head_bytes.data());
    head_bytes.erase(begin, head_bytes.find('\n', begin) + 1 - begin);
    any = true;
  }
  if (head.target.find('?') == std::string_view::npos) return any;
  const auto holds = [&](std::string_view text) {
    if (text.size() < shortest_key) return false;
    if (may_be_key(text) && is_right(text)) return true;
    if (text.find('%') == std::string_view::npos) return false;
    const auto decoded = unescaped(text);
    return may_be_key(decoded) && is_right(decoded);
  };
  const auto kept =
      without_parameters(head.target, [&](std::string_view whole, std::string_view name, std::string_view value) {
        return holds(whole) || (whole.size() > name.size() && (holds(name) || holds(value)));
      });
  if (kept.size() == head.target.size()) return any;
  head_bytes.replace(static_cast<std::size_t>(head.target.data() - head_bytes.data()), head.target.size(), kept);
  return true;
}

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

std::optional<std::string_view> valid_request_id(std::string_view value) {
  const auto allowed = [](char c) { return is_word(c) || c == '.'; };
  if (value.empty() || value.size() > 128 || !std::ranges::all_of(value, allowed)) return std::nullopt;
  return value;
}

const std::string& name_in_via() {
  static const auto name = [] {
    std::random_device device;
    char text[32];
    std::snprintf(text, sizeof text, "weir-%08x%08x", device(), device());
    return std::string(text);
  }();
  return name;
}

}  // namespace weir::proxy::http

#include "proxy/http/head.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace weir::proxy::http {
namespace {

/// A set of characters. Each byte of a head is looked up in one.
class Characters {
 public:
  constexpr explicit Characters(std::string_view others) {
    for (char c = 'a'; c <= 'z'; ++c) add(c);
    for (char c = 'A'; c <= 'Z'; ++c) add(c);
    for (char c = '0'; c <= '9'; ++c) add(c);
    for (const char c : others) add(c);
  }
  constexpr bool hold(std::string_view s) const {
    return std::all_of(s.begin(), s.end(), [this](char c) { return in_[static_cast<unsigned char>(c)]; });
  }

 private:
  constexpr void add(char c) { in_[static_cast<unsigned char>(c)] = true; }
  std::array<bool, 256> in_{};
};

constexpr Characters token_characters("!#$%&'*+-.^_`|~");
constexpr Characters host_characters("-._~");

/// Returns 0 if none of the word's eight bytes is below a blank, or DEL.
constexpr std::uint64_t controls_in(std::uint64_t word) {
  constexpr std::uint64_t each = 0x0101010101010101, high = each * 0x80;
  const auto other_than_del = word ^ (each * 0x7f);
  return (((word - each * ' ') & ~word) | ((other_than_del - each) & ~other_than_del)) & high;
}

/// Parses digits alone, without sign, leading zeros or overflow.
std::optional<std::uint64_t> parse_length(std::string_view s) {
  if (s.empty() || (s.size() > 1 && s.front() == '0')) return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, ec] = std::from_chars(s.data(), s.data() + s.size(), value);
  if (ec != std::errc{} || end != s.data() + s.size() || !(s.front() >= '0' && s.front() <= '9')) return std::nullopt;
  return value;
}

/// Takes the next line off `rest`. Fails on a line that CRLF does not end.
std::optional<std::string_view> take_line(std::string_view& rest) {
  const auto end = rest.find('\n');
  if (end == std::string_view::npos || end == 0 || rest[end - 1] != '\r') return std::nullopt;
  const auto line = rest.substr(0, end - 1);
  rest.remove_prefix(end + 1);
  return line;
}

/// No line of a head may hold a bare CR or a NUL.
bool holds_cr_or_nul(std::string_view line) {
  return line.find('\r') != std::string_view::npos || line.find('\0') != std::string_view::npos;
}

bool always_hop_by_hop(FieldName name) {
  switch (name) {
    case FieldName::close:
    case FieldName::connection:
    case FieldName::keep_alive:
    case FieldName::proxy_authenticate:
    case FieldName::proxy_authorization:
    case FieldName::proxy_connection:
    case FieldName::te:
    case FieldName::trailer:
    case FieldName::transfer_encoding:
    case FieldName::upgrade:
      return true;
    default:
      return false;
  }
}

/// Connection must not name these fields: dropping them would change whose message it is, what it says or where it
/// ends.
bool is_protected(FieldName name, std::string_view text) {
  constexpr std::string_view content = "content-";
  switch (name) {
    case FieldName::authorization:
    case FieldName::cookie:
    case FieldName::host:
    case FieldName::transfer_encoding:
    case FieldName::x_api_key:
      return true;
    default:
      return same_token(text.substr(0, content.size()), content);
  }
}

/// The Connection fields of a head, taken together.
struct Connection {
  std::vector<std::string_view> named;  ///< See RequestHead.
  bool close = false, keep_alive = false;
  bool names_protected = false;

  bool stays_open(bool http_1_1) const { return !close && (http_1_1 || keep_alive); }
};

/// Splits Connection fields into their options, each once.
class ConnectionReader {
 public:
  explicit ConnectionReader(Connection& into) : into_(into) {}

  /// Takes one field's value: a list (RFC 9110, 5.6.1), whose elements may be empty.
  std::optional<HeadError> take(std::string_view list) {
    if (list.size() > bytes_left_) return HeadError::malformed_line;
    bytes_left_ -= list.size();
    while (!list.empty()) {
      const auto comma = std::min(list.find(','), list.size());
      const auto option = trim(list.substr(0, comma));
      list.remove_prefix(std::min(comma + 1, list.size()));
      if (option.empty()) continue;
      // Parsers differ on the options of a value that is no list: some skip parts that are no token, some search it for
      // words. So they would differ on which fields are hop-by-hop.
      if (!is_token(option)) return HeadError::bad_connection;
      if (++options_ > max_options) return HeadError::too_many_options;
      add(option);
    }
    return std::nullopt;
  }

 private:
  void add(std::string_view option) {
    const auto name = field_name(option);
    into_.close |= name == FieldName::close;
    into_.keep_alive |= name == FieldName::keep_alive;
    into_.names_protected |= is_protected(name, option);
    if (!always_hop_by_hop(name)) into_.named.push_back(option);
  }

  Connection& into_;
  std::size_t bytes_left_ = max_connection, options_ = 0;
};

HeadResult<std::vector<HeaderField>> parse_fields(std::string_view rest, Connection& connection) {
  std::vector<HeaderField> fields;
  fields.reserve(16);
  ConnectionReader options(connection);
  for (;;) {
    const auto line = take_line(rest);
    if (!line) return HeadError::malformed_line;
    if (line->empty()) break;
    if (fields.size() == max_fields)
      return holds_cr_or_nul(*line) ? HeadError::malformed_line : HeadError::too_many_fields;
    const auto colon = line->find(':');
    if (colon == std::string_view::npos) return HeadError::malformed_line;
    const HeaderField field(line->substr(0, colon), trim(line->substr(colon + 1)));
    // All known names are tokens. Neither a token nor a value holds a CR or a NUL.
    if (field.known == FieldName::other && !is_token(field.name)) return HeadError::malformed_line;
    if (!is_value(field.value)) return HeadError::malformed_line;
    fields.push_back(field);
    if (field.known != FieldName::connection) continue;
    if (const auto error = options.take(field.value)) return *error;
  }
  if (!rest.empty()) return HeadError::malformed_line;
  return fields;
}

/// Content-Length and Transfer-Encoding taken together: Framing::none if neither is there.
struct DeclaredFraming {
  Framing framing = Framing::none;
  std::uint64_t length = 0;
};

HeadResult<DeclaredFraming> declared_framing(const std::vector<HeaderField>& fields, bool http_1_1) {
  std::optional<std::string_view> length, encoding;
  for (const auto& field : fields) {
    if (field.known == FieldName::content_length) {
      if (length) return HeadError::bad_length;
      length = field.value;
    } else if (field.known == FieldName::transfer_encoding) {
      if (encoding) return HeadError::bad_transfer_encoding;
      encoding = field.value;
    }
  }
  if (length && encoding) return HeadError::length_and_encoding;
  DeclaredFraming declared;
  if (encoding) {
    if (!http_1_1) return HeadError::bad_transfer_encoding;
    if (!same_token(*encoding, "chunked"))
      return is_token(*encoding) ? HeadError::unknown_transfer_coding : HeadError::bad_transfer_encoding;
    declared.framing = Framing::chunked;
  } else if (length) {
    const auto value = parse_length(*length);
    if (!value) return HeadError::bad_length;
    declared.framing = Framing::length;
    declared.length = *value;
  }
  return declared;
}

/// Returns how many fields have this name.
std::ptrdiff_t count_of(const std::vector<HeaderField>& fields, FieldName name) {
  return std::ranges::count(fields, name, &HeaderField::known);
}

/// True for uri-host [":" port] of RFC 9110, 7.2, without the characters that a reg-name of RFC 3986 may have but no
/// real name has.
bool valid_host(std::string_view host) {
  const auto only = [](std::string_view s, std::string_view characters) {
    return !s.empty() && s.find_first_not_of(characters) == std::string_view::npos;
  };
  const bool bracketed = host.starts_with('[');
  const auto end = std::min(bracketed ? host.find(']') : host.find(':'), host.size());
  const auto name = host.substr(0, end);
  auto port = host.substr(end);
  if (bracketed) {
    if (port.empty() || !only(name.substr(1), "0123456789abcdefABCDEF:.")) return false;
    port.remove_prefix(1);
  } else if (name.empty() || !host_characters.hold(name)) {
    return false;
  }
  if (host.size() > 255) return false;
  return port.empty() || (port.starts_with(':') && port.size() <= 6 && only(port.substr(1), "0123456789"));
}

/// Reads all lines behind the first one.
std::optional<HeadError> read_fields(MessageHead& head, std::string_view rest, Connection& connection) {
  auto fields = parse_fields(rest, connection);
  if (!fields) return fields.error();
  head.fields = std::move(*fields);
  head.named = std::move(connection.named);
  return std::nullopt;
}

/// Takes origin-form, or absolute-form with http and the authority of Host (HTTP/1.0 may have none). Leaves the
/// origin-form in `target`. OPTIONS may have asterisk-form, for which an absolute-form without a path stands, too (RFC
/// 9112, 3.2.4).
std::optional<HeadError> settle_target(RequestHead& head) {
  const auto printable = [](char c) { return c >= 0x21 && c <= 0x7e; };
  if (head.target.empty() || !std::all_of(head.target.begin(), head.target.end(), printable))
    return HeadError::bad_target;
  const auto host = head[FieldName::host];
  if (constexpr std::string_view scheme = "http://"; same_token(head.target.substr(0, scheme.size()), scheme)) {
    const auto rest = head.target.substr(scheme.size());
    const auto slash = std::min(rest.find_first_of("/?"), rest.size());
    const auto authority = rest.substr(0, slash);
    if (host.empty() ? !valid_host(authority) : !same_token(authority, host)) return HeadError::bad_host;
    head.target = rest.substr(slash);
    if (head.target.empty()) head.target = head.method == "OPTIONS" ? "*" : "/";
  }
  if (head.target == "*" && head.method == "OPTIONS") {
    head.path = head.target;
    return std::nullopt;
  }
  if (head.target.front() != '/' || head.target.find('#') != std::string_view::npos) return HeadError::bad_target;
  head.path = head.target.substr(0, head.target.find('?'));
  return std::nullopt;
}

/// In the order of HeadError.
constexpr Refusal refusals[]{
    {400, "the request head is malformed"},
    {505, "only HTTP/1.0 and HTTP/1.1 are served here"},
    {400, "the request target is malformed"},
    {414, "the request line is longer than 8 KiB"},
    {400, "a request needs exactly one valid Host that agrees with its target"},
    {400, "Content-Length must be one plain decimal number"},
    {400, "Content-Length and Transfer-Encoding exclude each other"},
    {400, "Transfer-Encoding must be exactly one `chunked`, in HTTP/1.1"},
    {501, "the only transfer coding known here is `chunked`"},
    {400, "Connection must be a list of tokens with commas between them"},
    {400, "Connection has more than 32 options"},
    {400, "Connection names a field that must not be dropped"},
    {431, "the request has more than 100 header fields"},
    {405, "CONNECT and TRACE are not served here"},
    {417, "the only expectation known here is 100-continue"},
    {400, "a request may have one Authorization and one x-api-key; nobody can know which of two counts"},
    {400, "the request is malformed"},
};
static_assert(std::size(refusals) == static_cast<std::size_t>(HeadError::body_not_allowed) + 1);

}  // namespace

bool is_value(std::string_view text) {
  constexpr std::size_t step = sizeof(std::uint64_t);
  if (text.size() >= step) {
    const auto controls_at = [text](std::size_t at) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + at, sizeof word);
      return controls_in(word);
    };
    auto controls = controls_at(text.size() - step);
    for (std::size_t at = 0; at + step < text.size(); at += step) controls |= controls_at(at);
    if (controls == 0) return true;
  }
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f); });
}

std::string_view trim(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

bool is_token(std::string_view text) { return !text.empty() && token_characters.hold(text); }

Refusal refusal_of(HeadError error) { return refusals[static_cast<std::size_t>(error)]; }

std::string_view MessageHead::operator[](FieldName name) const {
  for (const auto& field : fields)
    if (field.known == name) return field.value;
  return {};
}

std::string_view MessageHead::operator[](std::string_view name) const {
  const auto known = field_name(name);
  if (known != FieldName::other) return (*this)[known];
  for (const auto& field : fields)
    if (field.known == known && same_token(field.name, name)) return field.value;
  return {};
}

std::optional<std::size_t> head_length(std::string_view bytes, std::size_t seen) {
  for (auto lf = bytes.find('\n', seen); lf != std::string_view::npos; lf = bytes.find('\n', lf + 1)) {
    const bool bare = lf == 0 || bytes[lf - 1] != '\r';
    if (bare || (lf >= 3 && bytes[lf - 2] == '\n' && bytes[lf - 3] == '\r')) return lf + 1;
  }
  return std::nullopt;
}

HeadResult<RequestHead> parse_request_head(std::string_view bytes) {
  RequestHead head;
  auto rest = bytes;
  const auto line = take_line(rest);
  if (!line || holds_cr_or_nul(*line)) return HeadError::malformed_line;
  if (line->size() > max_request_line) return HeadError::target_too_long;
  const auto first = line->find(' ');
  const auto last = line->rfind(' ');
  if (first == std::string_view::npos || first == last) return HeadError::malformed_line;
  head.method = line->substr(0, first);
  head.target = line->substr(first + 1, last - first - 1);
  const auto version = line->substr(last + 1);
  if (!is_token(head.method)) return HeadError::malformed_line;
  if (version != "HTTP/1.1" && version != "HTTP/1.0")
    return version.starts_with("HTTP/") ? HeadError::bad_version : HeadError::malformed_line;
  head.http_1_1 = version == "HTTP/1.1";
  if (head.method == "CONNECT" || head.method == "TRACE") return HeadError::method_not_allowed;

  Connection connection;
  if (const auto error = read_fields(head, rest, connection)) return *error;

  const auto hosts = count_of(head.fields, FieldName::host);
  if (hosts > 1 || (hosts == 0 && head.http_1_1) || (hosts == 1 && !valid_host(head[FieldName::host])))
    return HeadError::bad_host;
  if (const auto error = settle_target(head)) return *error;

  const auto declared = declared_framing(head.fields, head.http_1_1);
  if (!declared) return declared.error();
  head.framing = declared->framing;
  head.content_length = declared->length;

  if (connection.names_protected) return HeadError::protected_connection_option;
  head.keep_alive = connection.stays_open(head.http_1_1);
  if (count_of(head.fields, FieldName::authorization) > 1 || count_of(head.fields, FieldName::x_api_key) > 1)
    return HeadError::two_credentials;

  for (const auto& field : head.fields) {
    if (field.known != FieldName::expect) continue;
    if (!same_token(field.value, "100-continue")) return HeadError::unknown_expectation;
    head.expects_continue = head.http_1_1;
  }
  return head;
}

HeadResult<ResponseHead> parse_response_head(std::string_view bytes, bool to_head) {
  ResponseHead head;
  auto rest = bytes;
  const auto line = take_line(rest);
  if (!line || line->size() < 12 || holds_cr_or_nul(*line)) return HeadError::malformed_line;
  const auto version = line->substr(0, 9);
  if (version != "HTTP/1.1 " && version != "HTTP/1.0 ") return HeadError::bad_version;
  head.http_1_1 = version == "HTTP/1.1 ";
  const auto code = line->substr(9, 3);
  const auto [end, ec] = std::from_chars(code.data(), code.data() + 3, head.status);
  if (ec != std::errc{} || end != code.data() + 3 || head.status < 100 || head.status > 599)
    return HeadError::malformed_line;
  if (line->size() > 12 && ((*line)[12] != ' ' || !is_value(line->substr(13)))) return HeadError::malformed_line;

  Connection connection;
  if (const auto error = read_fields(head, rest, connection)) return *error;

  const auto declared = declared_framing(head.fields, head.http_1_1);
  if (!declared) return declared.error();
  if (connection.names_protected) return HeadError::protected_connection_option;
  head.keep_alive = connection.stays_open(head.http_1_1);
  // RFC 9110, 8.6, and RFC 9112, 6.1, forbid both fields here. Two readers would differ on where the next answer
  // begins.
  const bool announces_body = declared->framing == Framing::chunked || declared->length > 0;
  if ((head.status < 200 || head.status == 204) && announces_body) return HeadError::body_not_allowed;
  if (to_head || head.status < 200 || head.status == 204 || head.status == 304) {
    head.framing = Framing::none;
    // A replica that sends a body all the same may do so late, when its bytes would be read as the next answer.
    const bool has_none = declared->framing == Framing::length && declared->length == 0;
    if (head.status >= 200) head.keep_alive = head.keep_alive && has_none;
  } else if (declared->framing == Framing::none) {
    head.framing = Framing::until_close;
    head.keep_alive = false;
  } else {
    head.framing = declared->framing;
    head.content_length = declared->length;
  }
  return head;
}

bool is_hop_by_hop(const HeaderField& field, const std::vector<std::string_view>& named) {
  return always_hop_by_hop(field.known) || is_among(named, field.name);
}

namespace {

/// A name in lower case, with zeros behind it.
struct KnownName {
  std::array<char, 32> text{};
  std::size_t size = 0;
};

/// In the order of FieldName, from its second on.
constexpr std::string_view texts[]{"accept-encoding",
                                   "api-key",
                                   "authorization",
                                   "cache-control",
                                   "close",
                                   "connection",
                                   "content-encoding",
                                   "content-length",
                                   "content-type",
                                   "cookie",
                                   "expect",
                                   "forwarded",
                                   "host",
                                   "keep-alive",
                                   "ocp-apim-subscription-key",
                                   "origin",
                                   "proxy-authenticate",
                                   "proxy-authorization",
                                   "proxy-connection",
                                   "te",
                                   "trailer",
                                   "transfer-encoding",
                                   "upgrade",
                                   "via",
                                   "x-accel-buffering",
                                   "x-access-token",
                                   "x-amz-security-token",
                                   "x-api-key",
                                   "x-auth-token",
                                   "x-forwarded-for",
                                   "x-goog-api-key",
                                   "x-real-ip",
                                   "x-request-id",
                                   "x-weir-id",
                                   "x-weir-replica",
                                   "x-weir-shadow"};
static_assert(std::size(texts) == static_cast<std::size_t>(FieldName::x_weir_shadow));

constexpr std::size_t slot_count = 128;

/// Gives each known name a slot of its own. The factors were found by trying; the compiler checks them.
constexpr std::size_t slot_of(std::string_view text) {
  constexpr unsigned case_bit = 0x20;
  const unsigned first = static_cast<unsigned char>(text.front()) | case_bit;
  const unsigned last = static_cast<unsigned char>(text.back()) | case_bit;
  return (text.size() * 2 + first * 57 + last) % slot_count;
}

struct Table {
  std::array<KnownName, std::size(texts) + 1> names{};  ///< By FieldName. The first one is empty.
  std::array<FieldName, slot_count> in_slot{};
};

constexpr Table table = [] {
  Table made;
  for (std::size_t i = 0; i < std::size(texts); ++i) {
    auto& known = made.names[i + 1];
    known.size = texts[i].size();
    std::copy(texts[i].begin(), texts[i].end(), known.text.begin());
    made.in_slot[slot_of(texts[i])] = static_cast<FieldName>(i + 1);
  }
  return made;
}();

static_assert(std::ranges::all_of(texts, [](std::string_view text) {
  const bool plain = std::ranges::all_of(text, [](char c) { return (c >= 'a' && c <= 'z') || c == '-'; });
  return plain && texts[static_cast<std::size_t>(table.in_slot[slot_of(text)]) - 1] == text;
}));

/// Compares all bytes, zeros too: a fixed number of them, so the compiler does it without a loop.
bool is(const KnownName& known, std::string_view text) {
  if (text.size() != known.size) return false;
  std::array<char, std::tuple_size_v<decltype(known.text)>> padded{};
  std::memcpy(padded.data(), text.data(), text.size());
  unsigned char difference = 0;
  for (std::size_t i = 0; i < padded.size(); ++i) {
    const auto letter = static_cast<unsigned char>(known.text[i]);
    const auto either_case = (letter & 0x40) >> 1;  // Letters have 0x40; upper and lower case differ in 0x20.
    difference |= static_cast<unsigned char>((static_cast<unsigned char>(padded[i]) ^ letter) & ~either_case);
  }
  return difference == 0;
}

}  // namespace

FieldName field_name(std::string_view text) {
  if (text.empty()) return FieldName::other;
  const auto name = table.in_slot[slot_of(text)];
  return is(table.names[static_cast<std::size_t>(name)], text) ? name : FieldName::other;
}

}  // namespace weir::proxy::http

// Heads of HTTP/1: fields by number, and the strict gate that reads them.
//
// The strict gate turns raw head bytes into a head that weir acts on. It rejects and does not repair (RFC 9110, RFC
// 9112).
//
// The functions are pure and take one complete head, from its first byte to the blank line. Nothing is unfolded,
// trimmed into shape or guessed: a head that two peers could read in two ways is refused. Views point into the caller's
// bytes.
#pragma once

#include <algorithm>
#include <boost/system/result.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace weir::proxy::http {

/// A known name, whatever the case of its letters.
enum class FieldName : std::uint8_t {
  other,
  accept_encoding,
  api_key,
  authorization,
  cache_control,
  close,  ///< An option of Connection: no field has this name.
  connection,
  content_encoding,
  content_length,
  content_type,
  cookie,
  expect,
  forwarded,
  host,
  keep_alive,
  ocp_apim_subscription_key,
  origin,
  proxy_authenticate,
  proxy_authorization,
  proxy_connection,
  te,
  trailer,
  transfer_encoding,
  upgrade,
  via,
  x_accel_buffering,
  x_access_token,
  x_amz_security_token,
  x_api_key,
  x_auth_token,
  x_forwarded_for,
  x_goog_api_key,
  x_real_ip,
  x_request_id,
  x_weir_id,
  x_weir_replica,
  x_weir_shadow,
};

/// Returns FieldName::other for any text that is none of them.
FieldName field_name(std::string_view text);

struct HeaderField {
  HeaderField(std::string_view named, std::string_view said) : name(named), value(said), known(field_name(named)) {}

  std::string_view name, value;  ///< The value comes without the blanks around it.
  FieldName known;
};

/// Says how a message's body ends.
enum class Framing : std::uint8_t { none, length, chunked, until_close };

/// Says what is wrong with a request head; refusal_of() has the answer's status and sentence.
enum class HeadError : std::uint8_t {
  malformed_line,
  bad_version,
  bad_target,
  target_too_long,
  bad_host,
  bad_length,
  length_and_encoding,
  bad_transfer_encoding,
  unknown_transfer_coding,
  bad_connection,
  too_many_options,
  protected_connection_option,
  too_many_fields,
  method_not_allowed,
  unknown_expectation,
  two_credentials,
  body_not_allowed,  ///< Only an answer has it: a 1xx or a 204 that announces a body.
};

struct Refusal {
  unsigned status;
  std::string_view sentence;
};
Refusal refusal_of(HeadError error);

struct MessageHead {
  bool http_1_1 = true;    ///< False means HTTP/1.0.
  bool keep_alive = true;  ///< The peer lets the connection stay open behind this message.
  Framing framing = Framing::none;
  std::uint64_t content_length = 0;  ///< Set with Framing::length.
  std::vector<HeaderField> fields;
  std::vector<std::string_view> named;  ///< Connection names these fields besides those that always end here.

  /// Returns a field's first value, "" if it is absent. The second one takes any name.
  std::string_view operator[](FieldName name) const;
  std::string_view operator[](std::string_view name) const;
};

struct RequestHead : MessageHead {
  std::string_view method, target;
  std::string_view path;  ///< The target up to `?`; "*" for OPTIONS of the server as a whole.
  bool expects_continue = false;
};

struct ResponseHead : MessageHead {
  unsigned status = 0;
};

template <class T>
using HeadResult = boost::system::result<T, HeadError>;

inline constexpr std::size_t max_fields = 100;
inline constexpr std::size_t max_request_line = 8 * 1024;
/// The most bytes and options of a head's Connection values together, because each field is compared with every option.
inline constexpr std::size_t max_connection = 1024, max_options = 32;

/// Returns the length of the head at the front of `bytes`, blank line included; nothing while it is not complete. A
/// bare LF ends it too, so that such a head is refused at once: its blank line may never come. `seen` is how far an
/// earlier call has looked, so that a head in many pieces costs linear time.
std::optional<std::size_t> head_length(std::string_view bytes, std::size_t seen);

HeadResult<RequestHead> parse_request_head(std::string_view head);
/// Parses a response head. `to_head` says that the request was HEAD, so that no body follows whatever the fields say.
HeadResult<ResponseHead> parse_response_head(std::string_view head, bool to_head);

/// True for a token of RFC 9110, 5.6.2.
bool is_token(std::string_view text);

/// True for what a field's value may hold: blanks, printable ASCII and bytes above ASCII. It may be empty.
bool is_value(std::string_view text);

/// Compares ASCII tokens without regard to case. Most pairs differ in length or in their first letter.
inline bool same_token(std::string_view a, std::string_view b) {
  const auto small = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(a, b, [small](char x, char y) { return x == y || small(x) == small(y); });
}

/// True if `name` is one of `names`, as tokens.
template <class Names>
bool is_among(const Names& names, std::string_view name) {
  return std::ranges::any_of(names, [name](std::string_view one) { return same_token(name, one); });
}

/// Returns the text without the blanks around it.
std::string_view trim(std::string_view text);

/// True for a letter, a digit, `-` and `_`.
inline bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/// True for a field that belongs to one connection: RFC 9110 7.6.1 lists it, or it is `named` by the message's
/// Connection.
bool is_hop_by_hop(const HeaderField& field, const std::vector<std::string_view>& named);

}  // namespace weir::proxy::http

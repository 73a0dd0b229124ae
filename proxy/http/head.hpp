// The strict gate: raw head bytes -> a head that weir acts on. Reject, don't repair (RFC 9110, RFC 9112).
//
// Pure functions over one complete head, from its first byte to the blank line. Nothing is unfolded, trimmed into shape
// or guessed: what two peers could read in two ways is refused. Views point into the caller's bytes.
#pragma once

#include <boost/beast/core/string.hpp>
#include <boost/system/result.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace weir::proxy::http {

struct HeaderField {
  std::string_view name, value;  ///< Value without the blanks around it.
};

/// How a message's body ends.
enum class Framing : std::uint8_t { none, length, chunked, until_close };

/// What is wrong with a request head; the answer's status and sentence are in refusal_of().
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
  protected_connection_option,
  too_many_fields,
  method_not_allowed,
  unknown_expectation,
};

struct Refusal {
  unsigned status;
  std::string_view sentence;
};
Refusal refusal_of(HeadError error);

struct RequestHead {
  std::string_view method, target;
  std::string_view path;   ///< The target up to `?`.
  bool http_1_1 = true;    ///< Else 1.0.
  bool keep_alive = true;  ///< What the client asks for.
  bool expects_continue = false;
  Framing framing = Framing::none;
  std::uint64_t content_length = 0;  ///< With Framing::length.
  std::vector<HeaderField> fields;

  std::string_view operator[](std::string_view name) const;  ///< First value of a field, "" where absent.
};

struct ResponseHead {
  unsigned status = 0;
  bool http_1_1 = true;
  bool keep_alive = true;
  Framing framing = Framing::none;
  std::uint64_t content_length = 0;
  std::vector<HeaderField> fields;

  std::string_view operator[](std::string_view name) const;
};

template <class T>
using HeadResult = boost::system::result<T, HeadError>;

inline constexpr std::size_t max_fields = 100;
inline constexpr std::size_t max_request_line = 8 * 1024;
/// Of all Connection values of a head: each of its fields is looked for in them.
inline constexpr std::size_t max_connection = 1024;

/// Length of the head at the front of `bytes`, blank line included; nothing while it is not complete. A bare LF ends it
/// too, so that it is refused at once: its blank line may never come. `seen` is what an earlier call has looked at, so
/// that a head in many pieces costs linear time.
std::optional<std::size_t> head_length(std::string_view bytes, std::size_t seen);

HeadResult<RequestHead> parse_request_head(std::string_view head);
/// `to_head`: the request was HEAD, so that no body follows whatever the fields say.
HeadResult<ResponseHead> parse_response_head(std::string_view head, bool to_head);

/// Case-insensitive equality of ASCII tokens. Most that are compared differ in length or in their first letter.
inline bool same_token(std::string_view a, std::string_view b) {
  constexpr int letter_case = 'a' ^ 'A';
  if (a.size() != b.size()) return false;
  return a.empty() ||
         (((a[0] ^ b[0]) & ~letter_case) == 0 && boost::beast::iequals({a.data(), a.size()}, {b.data(), b.size()}));
}

/// A field that belongs to one connection: those RFC 9110 7.6.1 lists, and those this message's Connection names.
bool is_hop_by_hop(std::string_view name, const std::vector<HeaderField>& fields);

}  // namespace weir::proxy::http

// Text and numbers of JSON as bytes: code points, escapes, UTF-8; events read in place.
//
// Counts the code points of text as it comes on the wire, in raw JSON strings and in pieces, undoes its escapes, and
// checks its UTF-8.
#pragma once

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <experimental/simd>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "metrics/utf8.hpp"
#include "metrics/vocabulary.hpp"

namespace weir::metrics::wire {

/// -1 for what is no hex digit.
constexpr int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/// Returns the byte for which a backslash and this letter stand; 0 where they are no escape of one letter.
inline char undone_letter(char c) {
  static constexpr auto table = [] {
    std::array<char, 256> letters{};
    letters['"'] = '"';
    letters['\\'] = '\\';
    letters['/'] = '/';
    letters['b'] = '\b';
    letters['f'] = '\f';
    letters['n'] = '\n';
    letters['r'] = '\r';
    letters['t'] = '\t';
    return letters;
  }();
  return table[static_cast<unsigned char>(c)];
}

/// Reads an escape from the byte behind its backslash. An escape stands for one UTF-16 unit.
class Escape {
 public:
  enum class Step : std::uint8_t { more, ended, broken };

  /// `unit()` is valid once this says `ended`.
  Step feed(char c) {
    if (digits_missing_ == 0) return read_letter(c);
    const int digit = hex_digit(c);
    if (digit < 0) return Step::broken;
    unit_ = unit_ * 16 + static_cast<char32_t>(digit);
    return --digits_missing_ > 0 ? Step::more : Step::ended;
  }
  char32_t unit() const { return unit_; }

 private:
  Step read_letter(char c) {
    if (c == 'u') {
      digits_missing_ = 4;
      return Step::more;
    }
    unit_ = static_cast<unsigned char>(undone_letter(c));
    return unit_ == 0 ? Step::broken : Step::ended;
  }

  std::uint8_t digits_missing_ = 0;
  char32_t unit_ = 0;
};

/// Joins the UTF-16 units of escapes that follow one another. Half a surrogate pair that stands alone becomes U+FFFD.
class Utf16Units {
 public:
  /// Tells the code points that are known with `unit`. Returns false if a half stands alone.
  template <class Tell>
  bool add(char32_t unit, Tell&& tell) {
    const bool second_half = unit >= 0xDC00 && unit < 0xE000;
    if (first_half_ != 0 && second_half) {
      tell(0x10000 + ((first_half_ - 0xD800) << 10) + (unit - 0xDC00));
      first_half_ = 0;
      return true;
    }
    const bool paired = end(tell) && !second_half;
    if (unit >= 0xD800 && unit < 0xDC00) {
      first_half_ = unit;
    } else {
      tell(second_half ? U'\uFFFD' : unit);
    }
    return paired;
  }
  /// Says that no escape follows here. Returns false if a half stood alone.
  template <class Tell>
  bool end(Tell&& tell) {
    if (first_half_ == 0) return true;
    first_half_ = 0;
    tell(U'\uFFFD');
    return false;
  }
  bool open() const { return first_half_ != 0; }

 private:
  char32_t first_half_ = 0;  // 0 outside a surrogate pair.
};

/// Returns the code points of the inside of a JSON string, with escapes decoded (a surrogate pair is one). Absent if
/// `body` could not stand between two quotes: it has a bare quote, a control byte, a broken escape, an odd backslash at
/// its end, or broken UTF-8.
std::optional<std::uint64_t> code_points_of_string_body(std::string_view body);

/// Tells the text of the inside of a JSON string in pieces, each of whole code points. Half a surrogate pair, and a
/// backslash that begins no escape, become U+FFFD.
template <class Tell>
void undo_escapes(std::string_view body, Tell&& tell) {
  const auto tell_point = [&tell](char32_t point) {
    std::array<char, 4> bytes;
    tell(std::string_view(bytes.data(), put_code_point(point, bytes.data())));
  };
  Utf16Units units;
  while (!body.empty()) {
    const std::size_t plain = std::min(body.find('\\'), body.size());
    if (plain > 0) {
      units.end(tell_point);
      tell(body.substr(0, plain));
    }
    body.remove_prefix(plain);
    if (body.empty()) break;
    body.remove_prefix(1);
    Escape escape;
    auto step = Escape::Step::more;
    std::size_t read = 0;
    while (read < body.size() && step == Escape::Step::more) step = escape.feed(body[read++]);
    if (step == Escape::Step::ended) {
      units.add(escape.unit(), tell_point);
      body.remove_prefix(read);
      continue;
    }
    units.end(tell_point);
    tell_point(U'\uFFFD');
    constexpr std::size_t one_unit = 5;  // A u and four digits.
    body.remove_prefix(std::min(body.starts_with('u') ? one_unit : 1, body.size()));
  }
  units.end(tell_point);
}

/// Counts the code points that begin in a piece of UTF-8 text. The text may be cut anywhere: the counts of its pieces
/// add up.
std::uint64_t code_points_begun(std::string_view piece);

/// Checks UTF-8 that comes in pieces, cut anywhere. It costs about 0.1 ns a byte.
class Utf8Check {
 public:
  /// Returns false once the text so far is not the beginning of any UTF-8 text.
  bool feed(std::string_view piece);

 private:
  std::array<char, 4> cut_{};  // The start of a code point that the last piece cut.
  std::size_t cut_size_ = 0;
  bool valid_ = true;
};

// Reads one JSON number that comes a byte at a time. Header only; knows no other file.

class NumberText {
 public:
  /// A longer number is followed to its end, and its value is not known.
  static constexpr std::size_t longest = 64;

  struct Digits {
    std::uint64_t value;
    std::size_t bytes;
  };
  /// Returns the number that begins at `at` if it is only digits, few enough for `value` to be exact, and another byte
  /// that ends it follows.
  static std::optional<Digits> plain_digits(const char* at, const char* end) {
    Digits digits{0, 0};
    for (; digits.bytes <= exact_digits && at + digits.bytes != end && is_digit(at[digits.bytes]); ++digits.bytes)
      digits.value = digits.value * 10 + static_cast<std::uint64_t>(at[digits.bytes] - '0');
    const char* const behind = at + digits.bytes;
    if (behind == end || *behind == '.' || *behind == 'e' || *behind == 'E') return std::nullopt;
    const bool leading_zero = digits.bytes > 1 && *at == '0';
    if (digits.bytes == 0 || digits.bytes > exact_digits || leading_zero) return std::nullopt;
    return digits;
  }

  void clear() {
    part_ = Part::none;
    only_digits_ = true;
    bytes_ = 0;
    digits_ = 0;
  }
  /// False, and nothing is taken, where the number cannot go on with `c`.
  bool add(char c) {
    const Part next = next_part(c);
    if (next == Part::none) return false;
    part_ = next;
    if (bytes_ < text_.size()) text_[bytes_] = c;
    ++bytes_;
    if (bytes_ <= exact_digits) digits_ = digits_ * 10 + static_cast<std::uint64_t>(c - '0');
    if (next != Part::zero && next != Part::whole) only_digits_ = false;
    return true;
  }
  /// Whether what has come is a whole number by the grammar (RFC 8259, section 6).
  bool complete() const {
    return part_ == Part::zero || part_ == Part::whole || part_ == Part::fraction || part_ == Part::exponent;
  }
  /// The nearest double; NaN where none holds it, or where the number is longer than `longest`.
  double value() const {
    if (only_digits_ && bytes_ <= exact_digits) return static_cast<double>(digits_);
    double value = std::numeric_limits<double>::quiet_NaN();
    if (bytes_ <= text_.size()) std::from_chars(text_.data(), text_.data() + bytes_, value);
    return value;
  }
  std::size_t bytes() const { return bytes_; }
  /// The number as it is written, up to `longest` bytes of it; "" for a few plain digits, which its value tells.
  std::string_view text() const {
    if (only_digits_ && bytes_ <= exact_digits) return {};
    return {text_.data(), std::min(bytes_, text_.size())};
  }

 private:
  enum class Part : std::uint8_t { none, minus, zero, whole, point, fraction, exponent_mark, exponent_sign, exponent };

  static constexpr std::size_t exact_digits = 15;  // A double holds each number of so many digits.
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  Part next_part(char c) const {
    const bool digit = is_digit(c);
    const bool mark = c == 'e' || c == 'E';
    switch (part_) {
      case Part::none:
        if (c == '-') return Part::minus;
        [[fallthrough]];
      case Part::minus:
        return !digit ? Part::none : c == '0' ? Part::zero : Part::whole;
      case Part::whole:
        if (digit) return Part::whole;
        [[fallthrough]];
      case Part::zero:
        return c == '.' ? Part::point : mark ? Part::exponent_mark : Part::none;
      case Part::point:
        return digit ? Part::fraction : Part::none;
      case Part::fraction:
        return digit ? Part::fraction : mark ? Part::exponent_mark : Part::none;
      case Part::exponent_mark:
        if (c == '+' || c == '-') return Part::exponent_sign;
        [[fallthrough]];
      case Part::exponent_sign:
      case Part::exponent:
        return digit ? Part::exponent : Part::none;
    }
    return Part::none;
  }

  Part part_ = Part::none;
  bool only_digits_ = true;
  std::size_t bytes_ = 0;
  std::uint64_t digits_ = 0;  // The value, while it has only digits and no more than `exact_digits`.
  std::array<char, longest> text_;
};

// Finds where the text of a JSON string ends that stands for itself: what needs undoing, and what the string ends with.
// Header only; knows no other file.

namespace plain_text {

using Bytes = std::experimental::native_simd<unsigned char>;
constexpr std::ptrdiff_t block = Bytes::size();

/// A JSON string does not hold these bytes as they are: a quote, a backslash and control bytes. With one bit of each
/// byte turned, the quote and the control bytes are those up to the blank: one comparison finds them.
inline auto ends(auto c) {
  constexpr unsigned char quote = '"', backslash = '\\', blank = ' ', bit = quote ^ blank;
  const auto turned = c ^ bit;
  return turned <= blank || turned == (backslash ^ bit);
}
inline Bytes load(const char* at) {
  return {reinterpret_cast<const unsigned char*>(at), std::experimental::element_aligned};
}

}  // namespace plain_text

/// Returns the first byte from `at` that a JSON string does not hold as it is.
inline const char* end_of_plain_text(const char* at, const char* end) {
  for (; end - at >= plain_text::block; at += plain_text::block) {
    const auto ends = plain_text::ends(plain_text::load(at));
    if (std::experimental::any_of(ends)) return at + std::experimental::find_first_set(ends);
  }
  return std::find_if(at, end, [](char c) { return plain_text::ends(static_cast<unsigned char>(c)); });
}

// Reads an event's JSON in place with simdjson On-Demand.

/// Calls `field(key, value)` for every field of `object`; false if the JSON is broken.
template <class Field>
bool for_each_field(simdjson::ondemand::object object, Field&& field) {
  for (auto one : object) {
    if (one.error() != simdjson::SUCCESS) return false;
    // The field is used in place: a copy of what the iterator has just written stalls the core, and an event has a
    // dozen fields.
    simdjson::ondemand::field&& it = std::move(one).value_unsafe();
    if (!field(it.key(), it.value())) return false;
  }
  return true;
}

/// Reads a whole document: `read` gets it, and returns false if it is broken. Each thread has one parser, so that a
/// stream owns none. 64 bytes behind `data` must be readable.
template <class Read>
bool read_document(std::string_view data, Read&& read) {
  thread_local simdjson::ondemand::parser shared;
  // A parser grows with what it reads, and stays so. A rare giant therefore gets one of its own.
  constexpr std::size_t usual = 64 * 1024;
  std::optional<simdjson::ondemand::parser> own;
  simdjson::ondemand::parser& parser = data.size() > usual ? own.emplace() : shared;
  simdjson::ondemand::document document;
  if (parser.iterate(data.data(), data.size(), data.size() + simdjson::SIMDJSON_PADDING).get(document)) return false;
  // Nothing may stand behind the last brace.
  return read(document) && document.current_location().error() == simdjson::OUT_OF_BOUNDS;
}

/// Reads a whole document that is an object.
template <class Field>
bool for_each_field_of(std::string_view data, Field&& field) {
  return read_document(data, [&](simdjson::ondemand::document& document) {
    simdjson::ondemand::object object;
    return document.get_object().get(object) == simdjson::SUCCESS && for_each_field(object, field);
  });
}

inline bool is_null(simdjson::ondemand::value& value) {
  simdjson::ondemand::json_type type;
  return value.type().get(type) == simdjson::SUCCESS && type == simdjson::ondemand::json_type::null;
}

inline bool is(simdjson::ondemand::value& value, simdjson::ondemand::json_type wanted) {
  simdjson::ondemand::json_type type;
  return value.type().get(type) == simdjson::SUCCESS && type == wanted;
}

/// Returns the value as a count; absent if it is not a whole number of at least 0, or if it is beyond belief.
inline std::optional<std::uint64_t> count_of(simdjson::ondemand::value& value) {
  std::uint64_t n = 0;
  if (value.get_uint64().get(n) != simdjson::SUCCESS || n > most_tokens) return std::nullopt;
  return n;
}

/// Returns the bytes of a value that is neither an object nor an array.
inline std::string_view token_of(simdjson::ondemand::value& value) {
  const std::string_view token = value.raw_json_token();
  return token.substr(0, token.find_last_not_of(" \t\r\n") + 1);  // The view reaches to the next token.
}

/// Returns the bytes of a string between its quotes, as they stand in the event.
inline std::string_view string_body(simdjson::ondemand::value& value) {
  std::string_view token = value.raw_json_token();
  token.remove_prefix(1);
  return token.substr(0, token.rfind('"'));
}

/// Returns the inside of a value that is a string; absent for any other value.
inline std::optional<std::string_view> string_of(simdjson::ondemand::value& value) {
  if (!is(value, simdjson::ondemand::json_type::string)) return std::nullopt;
  return string_body(value);
}

/// Adds a string's code points to `chars` and sets `any` and `inside` if there are some; skips other values. Returns
/// false if the value is broken.
inline bool read_text(simdjson::ondemand::value& value, std::uint64_t& chars, bool& any, std::string_view& inside) {
  const auto body = string_of(value);
  if (!body || body->empty()) return true;
  const auto points = code_points_of_string_body(*body);
  if (!points) return false;
  chars += *points;
  any = true;
  inside = *body;
  return true;
}

inline bool is_true(simdjson::ondemand::value& value) {
  bool flag = false;
  return is(value, simdjson::ondemand::json_type::boolean) && value.get_bool().get(flag) == simdjson::SUCCESS && flag;
}

/// True if the value of an `error` member reports one: it is neither null nor false nor an empty text.
inline bool says_error(simdjson::ondemand::value& value) {
  using simdjson::ondemand::json_type;
  if (is(value, json_type::boolean)) return is_true(value);
  const auto text = string_of(value);
  return text ? !text->empty() : !is_null(value);
}

/// Returns the JSON of a value that is an object or an array; "" for any other value. The value cannot be read
/// afterwards.
inline std::string_view json_of(simdjson::ondemand::value& value) {
  std::string_view json;
  simdjson::ondemand::object object;
  simdjson::ondemand::array array;
  if (is(value, simdjson::ondemand::json_type::object)) {
    if (value.get_object().get(object) || object.raw_json().get(json)) return {};
  } else if (is(value, simdjson::ondemand::json_type::array)) {
    if (value.get_array().get(array) || array.raw_json().get(json)) return {};
  }
  return json.substr(0, json.find_last_of("]}") + 1);  // The view reaches to the next token.
}

/// True if json_of() gave an object, or an array that is not empty.
inline bool holds_any(std::string_view json) {
  return json.starts_with('{') || (json.starts_with('[') && json.find_first_not_of(" \t\r\n", 1) != json.size() - 1);
}

/// Counts the elements of a value that is an array. Returns false if it is broken.
inline bool count_elements(simdjson::ondemand::value& value, std::optional<std::uint64_t>& count) {
  simdjson::ondemand::array list;
  std::size_t elements = 0;
  if (!is(value, simdjson::ondemand::json_type::array)) return true;
  if (value.get_array().get(list) != simdjson::SUCCESS || list.count_elements().get(elements) != simdjson::SUCCESS)
    return false;
  count = elements;
  return true;
}

/// Returns a choice's index; 0 if it has none.
inline std::uint32_t index_of(simdjson::ondemand::value& value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(count_of(value).value_or(0), UINT32_MAX));
}

/// Visits the fields of a value that is an object; skips any other value. Returns false if it is broken.
template <class Field>
bool for_each_field_in(simdjson::ondemand::value& value, Field&& field) {
  simdjson::ondemand::object object;
  if (!is(value, simdjson::ondemand::json_type::object)) return true;
  return value.get_object().get(object) == simdjson::SUCCESS && for_each_field(object, field);
}

}  // namespace weir::metrics::wire

// A base for readers of JSON that comes in pieces. It takes boost::json's SAX calls, joins keys in bounded memory, and
// hands on what a reader here wants to know. The pieces of a string come as they lie in the reads; everything else
// comes whole. State is bounded: of all text, only a key's first bytes are kept.
#pragma once

#include <boost/json/basic_parser.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace weir::metrics::wire {

/// A document that is nested deeper counts as broken; no engine reads one either. JsonFeed checks UTF-8.
inline boost::json::parse_options sax_options() {
  boost::json::parse_options options;
  options.max_depth = 256;
  options.allow_invalid_utf8 = true;
  return options;
}

/// `Reader` hides those of the functions below that it needs.
template <class Reader>
class Sax {
 public:
  void object_begin() {}
  void object_end(std::size_t) {}
  void array_begin() {}
  void array_end(std::size_t) {}
  void key_text(std::string_view) {}               ///< Brings the pieces of a key, before key().
  void key(std::string_view) {}                    ///< Brings the key; "" if it is longer than `longest_key`.
  void string(std::string_view, bool /*last*/) {}  ///< Brings the pieces of a string.
  /// Whole numbers up to 2^53 are exact; others are the nearest double. NaN stands for a number that no double holds,
  /// and for a fraction written in more than `longest_number` bytes.
  void number(double, std::size_t /*bytes*/) {}
  void boolean(bool) {}
  void null() {}

  static constexpr std::size_t longest_key = 32;
  static constexpr std::size_t longest_number = 64;

  // boost::json calls these.
  using error_code = boost::json::error_code;
  using text = boost::json::string_view;
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);
  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_object_begin(error_code&) { return reader().object_begin(), true; }
  bool on_object_end(std::size_t n, error_code&) { return reader().object_end(n), true; }
  bool on_array_begin(error_code&) { return reader().array_begin(), true; }
  bool on_array_end(std::size_t n, error_code&) { return reader().array_end(n), true; }
  bool on_key_part(text s, std::size_t, error_code&) { return add_key(s), true; }
  bool on_key(text s, std::size_t n, error_code&) {
    add_key(s);
    reader().key(n <= longest_key ? std::string_view(key_.data(), n) : std::string_view());
    key_size_ = 0;
    return true;
  }
  bool on_string_part(text s, std::size_t, error_code&) { return reader().string({s.data(), s.size()}, false), true; }
  bool on_string(text s, std::size_t, error_code&) { return reader().string({s.data(), s.size()}, true), true; }
  bool on_number_part(text s, error_code&) { return add_number(s), true; }
  bool on_int64(std::int64_t v, text s, error_code&) { return end_number(static_cast<double>(v), s.size()); }
  bool on_uint64(std::uint64_t v, text s, error_code&) { return end_number(static_cast<double>(v), s.size()); }
  bool on_double(double, text s, error_code&) {
    add_number(s);
    return end_number(fraction(), 0);
  }
  bool on_bool(bool v, error_code&) { return reader().boolean(v), true; }
  bool on_null(error_code&) { return reader().null(), true; }
  bool on_comment_part(text, error_code&) { return true; }
  bool on_comment(text, error_code&) { return true; }

 private:
  Reader& reader() { return static_cast<Reader&>(*this); }
  void add_key(text s) {
    reader().key_text({s.data(), s.size()});
    for (const char c : s) {
      if (key_size_ == key_.size()) break;
      key_[key_size_++] = c;
    }
  }
  void add_number(text s) {
    if (number_bytes_ < number_.size())
      std::copy_n(s.data(), std::min(s.size(), number_.size() - number_bytes_), number_.data() + number_bytes_);
    number_bytes_ += s.size();
  }
  /// The number is parsed here: the last bits of the parser's own value depend on where a long number is cut.
  double fraction() const {
    double value = std::numeric_limits<double>::quiet_NaN();
    if (number_bytes_ <= number_.size()) std::from_chars(number_.data(), number_.data() + number_bytes_, value);
    return value;
  }
  bool end_number(double v, std::size_t bytes) {
    reader().number(v, number_bytes_ + bytes);
    number_bytes_ = 0;
    return true;
  }

  std::array<char, longest_key> key_{};
  std::size_t key_size_ = 0;
  std::array<char, longest_number> number_{};  // It holds as much of the open number as has come.
  std::size_t number_bytes_ = 0;
};

/// Returns a JSON number as a count; absent if it is none.
inline std::optional<std::uint64_t> as_count(double number) {
  constexpr double most = 9007199254740992.0;  // This is 2^53: a larger double is no count.
  if (!(number >= 0 && number <= most)) return std::nullopt;
  const auto count = static_cast<std::uint64_t>(number);
  if (static_cast<double>(count) < number) return std::nullopt;
  return count;
}

}  // namespace weir::metrics::wire

// Reads one JSON number that comes a byte at a time. Header only; knows no other file.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace weir::metrics::wire {

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

}  // namespace weir::metrics::wire

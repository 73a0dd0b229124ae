// Undoes one escape of a JSON string, a byte at a time. Header only; knows no other file.
#pragma once

#include <array>
#include <cstdint>

namespace weir::metrics::wire {

/// -1 for what is no hex digit.
constexpr int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/// What a backslash before this letter stands for; 0 where it is not an escape of one letter.
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

/// One escape, from the byte behind its backslash. The two halves of a surrogate pair are one escape; half a pair is
/// broken.
class Escape {
 public:
  enum class Step : std::uint8_t { more, ended, broken };

  /// `code_point()` is valid once this says `ended`.
  Step feed(char c) {
    switch (part_) {
      case Part::letter:
        return read_letter(c);
      case Part::digits:
        return read_digit(c);
      case Part::second_backslash:
        part_ = Part::second_u;
        return c == '\\' ? Step::more : Step::broken;
      case Part::second_u:
        begin_digits();
        return c == 'u' ? Step::more : Step::broken;
    }
    return Step::broken;
  }
  char32_t code_point() const { return code_point_; }

 private:
  enum class Part : std::uint8_t { letter, digits, second_backslash, second_u };

  Step read_letter(char c) {
    if (c == 'u') {
      begin_digits();
      return Step::more;
    }
    const char undone = undone_letter(c);
    return undone == 0 ? Step::broken : end(static_cast<unsigned char>(undone));
  }
  Step read_digit(char c) {
    const int digit = hex_digit(c);
    if (digit < 0) return Step::broken;
    unit_ = unit_ * 16 + static_cast<char32_t>(digit);
    if (--digits_missing_ > 0) return Step::more;
    const bool first_half = unit_ >= 0xD800 && unit_ < 0xDC00;
    const bool second_half = unit_ >= 0xDC00 && unit_ < 0xE000;
    if (second_half != (first_half_ != 0)) return Step::broken;
    if (second_half) return end(0x10000 + ((first_half_ - 0xD800) << 10) + (unit_ - 0xDC00));
    if (!first_half) return end(unit_);
    first_half_ = unit_;
    part_ = Part::second_backslash;
    return Step::more;
  }
  void begin_digits() {
    part_ = Part::digits;
    digits_missing_ = 4;
    unit_ = 0;
  }
  Step end(char32_t code_point) {
    code_point_ = code_point;
    return Step::ended;
  }

  Part part_ = Part::letter;
  std::uint8_t digits_missing_ = 0;
  char32_t unit_ = 0;
  char32_t first_half_ = 0;  // 0 outside a surrogate pair.
  char32_t code_point_ = 0;
};

}  // namespace weir::metrics::wire

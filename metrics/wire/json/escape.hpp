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

}  // namespace weir::metrics::wire

// Reads UTF-8 by its bytes, for code that handles text a byte at a time. This file is header only and includes no other
// file of weir.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace weir::metrics {

/// True if this byte of valid UTF-8 is the first of a code point.
constexpr bool begins_code_point(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

/// Returns how many bytes a code point has, by its first byte, which must be valid there.
constexpr std::size_t code_point_size(char first) {
  const auto c = static_cast<unsigned char>(first);
  return c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
}

/// Returns how many bytes at the end of a text begin a code point without completing it.
constexpr std::size_t cut_at_end(std::string_view text) {
  for (std::size_t n = 1; n <= std::min<std::size_t>(3, text.size()); ++n) {
    const char c = text[text.size() - n];
    if (begins_code_point(c)) return code_point_size(c) > n ? n : 0;
  }
  return 0;
}

/// Writes a code point, at most U+10FFFF, to where four bytes have room; returns how many it took.
constexpr std::size_t put_code_point(char32_t c, char* to) {
  const auto continuation = [c](unsigned shift) { return static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) {
    to[0] = static_cast<char>(c);
    return 1;
  }
  if (c < 0x800) {
    to[0] = static_cast<char>(0xC0 | (c >> 6));
    to[1] = continuation(0);
    return 2;
  }
  if (c < 0x10000) {
    to[0] = static_cast<char>(0xE0 | (c >> 12));
    to[1] = continuation(6);
    to[2] = continuation(0);
    return 3;
  }
  to[0] = static_cast<char>(0xF0 | (c >> 18));
  to[1] = continuation(12);
  to[2] = continuation(6);
  to[3] = continuation(0);
  return 4;
}

struct CodePointBytes {
  std::size_t size;  ///< For a broken text it is the longest part that could begin a code point, at least 1.
  bool valid;
};

/// Returns the first code point of a non-empty text, which need not be valid UTF-8 (Unicode 15, table 3-7).
constexpr CodePointBytes first_code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, true};
  if (lead < 0xC2 || lead > 0xF4) return {1, false};
  // The second byte's range excludes overlong forms, surrogates, and code points above U+10FFFF.
  unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  const std::size_t size = code_point_size(text[0]);
  for (std::size_t i = 1; i < size; ++i) {
    if (i == text.size() || byte(i) < low || byte(i) > high) return {i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {size, true};
}

}  // namespace weir::metrics

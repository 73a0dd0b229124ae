// Finds where the text of a JSON string ends that stands for itself: what needs undoing, and what the string ends with.
// Header only; knows no other file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <experimental/simd>

namespace weir::metrics::wire {

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

}  // namespace weir::metrics::wire

#include "metrics/wire/json/text.hpp"

#include <simdjson.h>

#include <algorithm>

namespace weir::metrics::wire {

namespace {

/// Returns the value of four hex digits; -1 if they are not.
int hex4(std::string_view digits) {
  if (digits.size() < 4) return -1;
  int value = 0;
  for (const char c : digits.substr(0, 4)) {
    const int digit = hex_digit(c);
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

}  // namespace

std::optional<std::uint64_t> code_points_of_string_body(std::string_view body) {
  std::uint64_t points = 0;
  bool ascii = true;
  bool high_surrogate = false;  // The last escape was the first half of a pair.
  for (std::size_t i = 0; i < body.size(); ++i) {
    const auto c = static_cast<unsigned char>(body[i]);
    if (c != '\\') {
      if (c < 0x20 || c == '"') return std::nullopt;
      if (c >= 0x80) ascii = false;
      points += begins_code_point(body[i]) ? 1 : 0;
      high_surrogate = false;
      continue;
    }
    if (++i == body.size()) return std::nullopt;
    if (body[i] != 'u') {
      if (undone_letter(body[i]) == 0) return std::nullopt;
      ++points;
      high_surrogate = false;
      continue;
    }
    const int unit = hex4(body.substr(i + 1));
    if (unit < 0) return std::nullopt;
    i += 4;
    const bool second_half = high_surrogate && unit >= 0xDC00 && unit <= 0xDFFF;
    points += second_half ? 0 : 1;
    high_surrogate = !second_half && unit >= 0xD800 && unit <= 0xDBFF;
  }
  if (!ascii && !simdjson::validate_utf8(body)) return std::nullopt;
  return points;
}

std::uint64_t code_points_begun(std::string_view piece) {
  return static_cast<std::uint64_t>(std::ranges::count_if(piece, [](char c) { return begins_code_point(c); }));
}

bool Utf8Check::feed(std::string_view piece) {
  while (cut_size_ > 0 && !piece.empty()) {
    if (begins_code_point(piece.front())) {  // The code point before it was never completed.
      cut_size_ = 0;
      valid_ = false;
      break;
    }
    cut_[cut_size_++] = piece.front();
    piece.remove_prefix(1);
    if (cut_size_ < code_point_size(cut_[0])) continue;
    valid_ &= simdjson::validate_utf8(cut_.data(), cut_size_);
    cut_size_ = 0;
  }
  const std::size_t cut = cut_at_end(piece);
  const std::size_t whole = piece.size() - cut;
  for (; cut_size_ < cut; ++cut_size_) cut_[cut_size_] = piece[whole + cut_size_];
  valid_ &= simdjson::validate_utf8(piece.data(), whole);
  return valid_;
}

}  // namespace weir::metrics::wire

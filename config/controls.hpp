// The characters that steer a terminal or a page in place of being shown: what the other side of a connection, or a
// log, says must not hide a line, change a title or turn a text around.
//
// The list has the control characters of ASCII (C0, DEL) and of Unicode (C1), the marks that embed, override or isolate
// a direction, and the separators of lines and paragraphs. This file is header only and includes no other file of weir.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weir::config {

/// True if this byte goes on with a character of UTF-8.
constexpr bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

/// Returns the size in UTF-8 of the control character that a text begins with; 0 if it begins with another one.
constexpr std::size_t control_size(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto is_in = [&](std::size_t i, unsigned least, unsigned most) { return byte(i) >= least && byte(i) <= most; };
  if (text.empty()) return 0;
  if (byte(0) < 0x20 || byte(0) == 0x7F) return 1;
  if (byte(0) == 0xC2 && is_in(1, 0x80, 0x9F)) return 2;                     // U+0080 to U+009F.
  if (byte(0) == 0xE2 && byte(1) == 0x80 && is_in(2, 0xA8, 0xAE)) return 3;  // U+2028 to U+202E.
  if (byte(0) == 0xE2 && byte(1) == 0x81 && is_in(2, 0xA6, 0xA9)) return 3;  // U+2066 to U+2069.
  return 0;
}

/// Appends the control character of this size that a text begins with as an escape, such as \u009b.
inline void append_escaped(std::string& out, std::string_view text, std::size_t size, bool upper = false) {
  unsigned point = static_cast<unsigned char>(text[0]);
  if (size > 1) point &= size == 2 ? 0x1F : 0x0F;
  for (std::size_t i = 1; i < size; ++i) point = point << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
  const auto* const digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += digits[point >> shift & 15];
}

/// Returns a text with `?` for each control character and each byte that is not part of UTF-8. Tabs stay, and line
/// feeds where they are kept.
enum class LineFeeds : unsigned char { replaced, kept };
inline std::string printable(std::string_view text, LineFeeds line_feeds = LineFeeds::replaced) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const auto lead = static_cast<unsigned char>(text.front());
    const bool stays = lead == '\t' || (lead == '\n' && line_feeds == LineFeeds::kept);
    std::size_t size = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    bool shows = lead < 0x80 || (lead >= 0xC2 && lead <= 0xF4 && size <= text.size());
    for (std::size_t i = 1; shows && i < size; ++i) shows = continues_character(text[i]);
    if (!shows) size = 1;
    if (shows && (stays || control_size(text) == 0))
      shown += text.substr(0, size);
    else
      shown += '?';
    text.remove_prefix(size);
  }
  return shown;
}

/// Returns a text for places that count columns, and for labels: `?` for each character that is not printable ASCII.
/// The text is cut at `most` bytes.
inline std::string printable_ascii(std::string_view text, std::size_t most = std::string_view::npos) {
  std::string shown;
  for (const char c : text.substr(0, most))
    if (!continues_character(c)) shown += c >= ' ' && c <= '~' ? c : '?';
  return shown;
}

}  // namespace weir::config

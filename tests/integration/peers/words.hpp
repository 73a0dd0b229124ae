// The words that most tests say to weir, or write into its settings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir::integration {

inline constexpr auto chat = "/v1/chat/completions";

inline std::string quoted(const std::string& text) { return '"' + text + '"'; }
inline std::string bearer(const std::string& key) { return "Authorization: Bearer " + key + "\r\n"; }
inline std::string at_loopback(std::uint16_t port) { return "127.0.0.1:" + std::to_string(port); }
inline std::string url_of(std::uint16_t port) { return "http://" + at_loopback(port); }

/// Counts how often `words` stand in a text.
inline std::size_t times_in(std::string_view text, std::string_view words) {
  std::size_t times = 0;
  for (auto at = text.find(words); at != text.npos; at = text.find(words, at + 1)) ++times;
  return times;
}

}  // namespace weir::integration

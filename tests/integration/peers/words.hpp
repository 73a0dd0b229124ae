// What most tests say to weir, or write into its settings.
#pragma once

#include <cstdint>
#include <string>

namespace weir::integration {

inline constexpr auto chat = "/v1/chat/completions";

inline std::string quoted(const std::string& text) { return '"' + text + '"'; }
inline std::string bearer(const std::string& key) { return "Authorization: Bearer " + key + "\r\n"; }
inline std::string at_loopback(std::uint16_t port) { return "127.0.0.1:" + std::to_string(port); }

}  // namespace weir::integration

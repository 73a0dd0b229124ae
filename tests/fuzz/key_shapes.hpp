// No error may show a client's key or its hash.
#pragma once

#include <string_view>

namespace weir::fuzz {

constexpr std::string_view hex_digits = "0123456789abcdefABCDEF";
constexpr std::string_view base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// True if the text has so many of these characters behind a start.
inline bool has_run(std::string_view text, std::string_view start, std::string_view characters, std::size_t length) {
  for (auto at = text.find(start); at < text.size(); at = text.find(start, at + 1)) {
    const auto rest = text.substr(at + start.size(), length);
    if (rest.size() == length && rest.find_first_not_of(characters) == rest.npos) return true;
  }
  return false;
}

/// Errors cut long values, so half a hash or most of a key would be too much as well.
inline bool shows_a_secret(std::string_view text) {
  return has_run(text, "", hex_digits, 32) || has_run(text, "weir-", base64url, 32);
}

}  // namespace weir::fuzz

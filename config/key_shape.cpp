#include "config/key_shape.hpp"

#include <algorithm>

namespace weir::config {
namespace {

constexpr std::string_view hex_digits = "0123456789abcdefABCDEF";
constexpr std::string_view base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::string_view key_start = "weir-";
constexpr std::size_t hash_length = 64, key_length = 43, shown_of_hash = 8;
constexpr std::size_t shortest_part = 32;

std::size_t run_of(std::string_view characters, std::string_view text) {
  return std::min(text.find_first_not_of(characters), text.size());
}

bool consists_of(std::string_view characters, std::size_t length, std::string_view text) {
  return text.size() == length && run_of(characters, text) == length;
}

}  // namespace

bool looks_like_key_or_hash(std::string_view text) {
  return consists_of(hex_digits, hash_length, text) ||
         (text.starts_with(key_start) && consists_of(base64url, key_length, text.substr(key_start.size())));
}

std::string without_keys_and_hashes(std::string_view text) {
  std::string result;
  // `shown` characters stay of the next `length`. What was cut before ends with dots already.
  const auto take = [&](std::size_t shown, std::size_t length) {
    result += text.substr(0, shown);
    text.remove_prefix(length);
    if (shown < length && !text.starts_with("...")) result += "...";
  };
  while (!text.empty()) {
    const auto digits = run_of(hex_digits, text);
    const auto key = text.starts_with(key_start) ? run_of(base64url, text.substr(key_start.size())) : 0;
    if (key >= shortest_part) {
      take(key_start.size(), key_start.size() + key);
    } else if (digits >= shortest_part) {
      take(shown_of_hash, digits);
    } else {
      const auto length = std::max<std::size_t>(digits, 1);
      take(length, length);
    }
  }
  return result;
}

}  // namespace weir::config

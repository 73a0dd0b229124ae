#include "config/nesting.hpp"

#include <algorithm>

namespace weir::config {
namespace {

/// Returns the length of the text in quotes that begins here. One that ends nowhere is a mistake of syntax: it is taken
/// up to the end of its line, or of the file if it may have several.
std::size_t length_of_quoted(std::string_view toml) {
  const char quote = toml.front();
  const std::string three(3, quote);
  const bool many_lines = toml.starts_with(three);
  if (!many_lines && toml.size() > 1 && toml[1] == quote) return 2;
  for (std::size_t at = many_lines ? 3 : 1; at < toml.size(); ++at) {
    if (toml[at] == '\\' && quote == '"') {
      ++at;
    } else if (!many_lines && (toml[at] == quote || toml[at] == '\n')) {
      return at + 1;
    } else if (many_lines && toml.substr(at).starts_with(three)) {
      at += 3;  // Up to two more quotes belong to the text: they stand right before the three that end it.
      for (int more = 0; more < 2 && at < toml.size() && toml[at] == quote; ++more) ++at;
      return at;
    }
  }
  return toml.size();
}

TooDeep told(std::string_view toml, std::size_t at, std::string message) {
  const auto before = toml.substr(0, at);
  const auto line = before.rfind('\n');
  const auto of_line = before.substr(line == before.npos ? 0 : line + 1);
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
  return {static_cast<std::uint32_t>(std::ranges::count(before, '\n') + 1),
          static_cast<std::uint32_t>(std::ranges::count_if(of_line, begins) + 1), std::move(message)};
}

}  // namespace

std::optional<TooDeep> too_deep(std::string_view toml) {
  std::size_t brackets = 0, parts = 1;
  for (std::size_t at = 0; at < toml.size(); ++at) {
    switch (toml[at]) {
      case '"':
      case '\'':
        at += length_of_quoted(toml.substr(at)) - 1;
        break;
      case '#':
        at = std::min(toml.find('\n', at), toml.size()) - 1;
        break;
      case '.':
        if (++parts > most_key_parts)
          return told(toml, at,
                      "a key or header has more than " + std::to_string(most_key_parts) +
                          " parts, and no setting has so many; remove some of its dots, or put a text with dots in "
                          "quotes");
        break;
      case '[':
      case '{':
        parts = 1;
        if (++brackets > deepest_brackets)
          return told(toml, at,
                      "brackets are nested more than " + std::to_string(deepest_brackets) +
                          " deep, and no setting needs that; close one that is open, or remove some");
        break;
      case ']':
      case '}':
        if (brackets > 0) --brackets;
        parts = 1;
        break;
      case '\n':
      case '=':
      case ',':
        parts = 1;
        break;
      default:
        break;
    }
  }
  return std::nullopt;
}

}  // namespace weir::config

// Refuses TOML that is nested too deep, before the parser reads it: toml++ calls itself for each part of a dotted key
// and once more when it frees them, so that a key of some ten thousand parts ends the program.
//
// A look at the text suffices. Up to the first mistake of syntax it sees brackets, dots, texts and comments as the
// parser does, and behind that mistake the parser reads nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weir::config {

/// Settings need four of either; what a shadow sets in requests (a JSON schema) may need more.
inline constexpr std::size_t deepest_brackets = 64, most_key_parts = 32;

struct TooDeep {
  std::uint32_t line = 0, column = 0;
  std::string message;
};

/// Returns where brackets are nested too deep, or a key or header has too many parts; nothing if all is well. Reads the
/// text once.
std::optional<TooDeep> too_deep(std::string_view toml);

}  // namespace weir::config

// Writes what an error of TOML's syntax says: toml++'s words, and the way out for the mistakes that people make.
#pragma once

#include <string>
#include <string_view>

namespace weir::config {

/// The place of a syntax error. Both count from 1; `column` counts characters.
struct SyntaxPlace {
  unsigned line = 0;
  unsigned column = 0;
};

/// `description` is toml++'s, `toml` the whole text. The message shows no value, because a half written one may be a
/// secret, and no client's key or hash that stands in place of a name.
std::string syntax_message(std::string_view toml, SyntaxPlace at, std::string_view description);

}  // namespace weir::config

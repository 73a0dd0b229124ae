// The result of parsing one value: the value, or the sentence that says what would be right.
#pragma once

#include <string>
#include <variant>

namespace weir::config {

/// Says why a value is refused, as the end of "KEY = VALUE: ...": what it must be and what to write instead.
struct Problem {
  std::string text;
};

template <class T>
using Parsed = std::variant<T, Problem>;

}  // namespace weir::config

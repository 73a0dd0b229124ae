// Which members some engine takes for `model`: Go's and .NET's readers of JSON compare names without regard to case.
#pragma once

#include <algorithm>
#include <string_view>

namespace weir::metrics::wire {

/// True for `model` in whatever case.
inline bool is_model(std::string_view member) {
  constexpr std::string_view model = "model";
  return std::ranges::equal(member, model, [](char a, char b) { return a == b || a == b - ('a' - 'A'); });
}

}  // namespace weir::metrics::wire

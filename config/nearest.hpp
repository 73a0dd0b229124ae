// Finds the known word that is closest to a misspelt one, for "Did you mean ...?".
#pragma once

#include <span>
#include <string_view>

namespace weir::config {

/// Returns the candidate with the fewest letters added, dropped, changed or swapped with their neighbour; of several
/// the first. Upper and lower case do not differ, nor do `-` and `_`. If that is more than a third of the word, returns
/// the only candidate that begins with it ("warn" for "warning"), or else "".
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace weir::config

// "Did you mean ...?": the known word that a misspelt one is closest to.
#pragma once

#include <span>
#include <string_view>

namespace weir::config {

/// The candidate with the fewest letters added, dropped, changed or swapped with their neighbour, the first of several;
/// upper and lower case and `-` for `_` are no change. Where that would be more than a third of the word: the only
/// candidate that begins with it ("warn" for "warning"). Else empty.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace weir::config

// "Did you mean ...?": the known word that a misspelt one is closest to.
#pragma once

#include <span>
#include <string_view>

namespace weir::config {

/// The candidate with the fewest letters added, dropped, changed or swapped with their neighbour (upper and lower case
/// and `-` for `_` count as no change), the first of several. Empty where even that differs in more than a third of the
/// word.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace weir::config

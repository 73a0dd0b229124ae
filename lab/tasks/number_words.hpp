// Numbers in English words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weir::lab::tasks {

/// The largest number that is written in words here.
inline constexpr std::uint64_t most_in_words = 999'999'999;

/// Returns "four hundred two thousand ninety-one" for 402,091. `number` is at most most_in_words.
std::string in_words(std::uint64_t number);

/// Reads what in_words() writes, in any case; nothing if a word is none of its.
std::optional<std::uint64_t> number_of(std::string_view words);

}  // namespace weir::lab::tasks

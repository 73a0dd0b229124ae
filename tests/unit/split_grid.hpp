// How densely the tests of every split cut what they feed: everywhere, but under sanitizers, where that takes minutes, at
// one place in so many. Sanitizers look for other mistakes than those that one place in particular brings to light.
#pragma once

#include <cstddef>

namespace weir {

#ifdef WEIR_SANITIZED
inline constexpr std::size_t split_step = 11;
#else
inline constexpr std::size_t split_step = 1;
#endif

}  // namespace weir

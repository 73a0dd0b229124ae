// Says how densely the tests of every split cut their input. They cut everywhere, except under sanitizers, where that
// takes minutes: there they cut at one place in so many. Sanitizers find other mistakes than those that one particular
// place shows.
#pragma once

#include <cstddef>

namespace weir {

#ifdef WEIR_SANITIZED
inline constexpr std::size_t split_step = 11;
#else
inline constexpr std::size_t split_step = 1;
#endif

}  // namespace weir

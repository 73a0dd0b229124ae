// Asking memory into the cache before its turn. A hint: nothing is read, and any address is allowed.
#pragma once

#include <cstddef>

namespace weir::metrics {

inline constexpr std::size_t cache_line = 64;

inline void prefetch(const void* from, std::size_t size) {
  const auto* const begin = static_cast<const char*>(from);
  for (std::size_t at = 0; at < size; at += cache_line) __builtin_prefetch(begin + at);
}

template <class T>
void prefetch(const T& object) {
  prefetch(&object, sizeof object);
}

}  // namespace weir::metrics

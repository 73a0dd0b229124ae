// Prefetches memory into the cache before it is needed. It is a hint: nothing is read, and any address is allowed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::metrics {

inline constexpr std::size_t cache_line = 64;

inline void prefetch(const void* from, std::size_t size) {
  // The address is computed with integers, because an empty vector's address is null and null plus an offset is
  // undefined.
  const auto begin = reinterpret_cast<std::uintptr_t>(from);
  for (std::size_t at = 0; at < size; at += cache_line) __builtin_prefetch(reinterpret_cast<const void*>(begin + at));
}

inline void prefetch(const void* from, const void* to) {
  prefetch(from, static_cast<std::size_t>(static_cast<const char*>(to) - static_cast<const char*>(from)));
}

template <class T>
void prefetch(const T& object) {
  prefetch(&object, sizeof object);
}

}  // namespace weir::metrics

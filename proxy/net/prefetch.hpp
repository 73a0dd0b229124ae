// Prefetches memory. This is a hint: nothing is read, and any address is allowed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::proxy::net {

inline constexpr std::uintptr_t cache_line = 64;

/// Asks for every cache line that holds one of these bytes.
inline void prefetch(const void* from, std::size_t size) {
  // Reckoned in integers: null plus something is undefined.
  const auto begin = reinterpret_cast<std::uintptr_t>(from);
  for (auto line = begin & ~(cache_line - 1); line < begin + size; line += cache_line)
    __builtin_prefetch(reinterpret_cast<const void*>(line));
}

}  // namespace weir::proxy::net

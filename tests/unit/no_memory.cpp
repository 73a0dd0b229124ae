#include "tests/unit/no_memory.hpp"

#ifndef WEIR_SANITIZED
#include <cstdlib>
#include <limits>
#include <new>

namespace weir::no_memory {
namespace {

constexpr auto never = std::numeric_limits<std::size_t>::max();
thread_local std::size_t left = never;

void* allocate(std::size_t size) noexcept {
  if (left != never && left-- == 0) return nullptr;
  return std::malloc(size == 0 ? 1 : size);
}

}  // namespace

void fail_at(std::size_t before) { left = before; }

bool has_failed() {
  const bool failed = left == never;
  left = never;
  return failed;
}

}  // namespace weir::no_memory

void* operator new(std::size_t size) {
  if (void* const memory = weir::no_memory::allocate(size)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return weir::no_memory::allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

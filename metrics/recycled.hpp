// Memory for an object that each request needs once and soon lets go: a thread keeps the memory of a few for the next
// ones. An object of more than about 1 kB, which malloc() does not keep by the thread, costs some 300 instructions
// without it. Header only; includes no other file of weir.
#pragma once

#include <array>
#include <cstddef>
#include <new>

namespace weir::metrics {

/// `Object` derives from it and is made by `new`. It may be deleted on another thread, which then keeps its memory.
template <class Object>
class Recycled {
 public:
  static constexpr std::size_t most_kept = 16;  ///< Requests of as many connections may end in one turn of a loop.

  static void* operator new(std::size_t size) {
    const bool is_kept = kept_.count > 0 && kept_.count <= most_kept;
    return is_kept ? kept_.memory[--kept_.count] : ::operator new(size);
  }
  static void operator delete(void* memory) {
    static_assert(alignof(Object) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    if (kept_.count >= most_kept) return ::operator delete(memory);
    kept_.memory[kept_.count++] = memory;
  }

 private:
  struct Kept {
    std::array<void*, most_kept> memory{};
    std::size_t count = 0;
    ~Kept() {
      while (count > 0) ::operator delete(memory[--count]);
      count = most_kept + 1;  // Nothing is kept any more, nor taken.
    }
  };
  static thread_local constinit inline Kept kept_;
};

}  // namespace weir::metrics

// Memory for an object that each request needs once and soon lets go: a thread keeps the memory of one for the next.
// An object of more than about 1 kB, which malloc() does not keep by the thread, costs some 300 instructions without
// it. Header only; includes no other file of weir.
#pragma once

#include <cstddef>
#include <new>
#include <utility>

namespace weir::metrics {

/// `Object` derives from it and is made by `new`. It may be deleted on another thread, which then keeps its memory.
template <class Object>
class Recycled {
 public:
  static void* operator new(std::size_t size) {
    return kept_.memory == nullptr ? ::operator new(size) : std::exchange(kept_.memory, nullptr);
  }
  static void operator delete(void* memory) {
    static_assert(alignof(Object) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    ::operator delete(std::exchange(kept_.memory, memory));
  }

 private:
  struct Kept {
    void* memory = nullptr;
    ~Kept() { ::operator delete(memory); }
  };
  static thread_local constinit inline Kept kept_;
};

}  // namespace weir::metrics

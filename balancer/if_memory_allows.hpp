// Work that may be left undone where memory fails: lessons, and the serving of those that wait, which the next call
// that makes room does again. Header only; includes no other file of weir.
#pragma once

#include <new>

namespace weir::balancer {

/// Returns false if `work` ended by std::bad_alloc. Another exception ends the process.
template <class Work>
bool if_memory_allows(const Work& work) noexcept {
  try {
    work();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace weir::balancer

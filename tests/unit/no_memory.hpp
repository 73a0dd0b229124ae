// An allocation of the calling thread fails, so that a test sees what want of memory does. Sanitizers have an operator
// new of their own, so the tests that use this are left out there.
#pragma once

#include <cstddef>

namespace weir::no_memory {

/// The allocation after `before` more of them throws std::bad_alloc, once.
void fail_at(std::size_t before);
/// True if it has; if not, none is to fail any more.
bool has_failed();

}  // namespace weir::no_memory

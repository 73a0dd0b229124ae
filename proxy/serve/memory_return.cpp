#include "proxy/serve/memory_return.hpp"

#include <jemalloc/jemalloc.h>
#include <malloc.h>

#pragma weak mallctl  // Tests and programs with sanitizers are linked without jemalloc.

namespace weir::proxy::serve {

void give_memory_back() noexcept {
  if (mallctl == nullptr) {
    ::malloc_trim(0);
    return;
  }
  static_assert(MALLCTL_ARENAS_ALL == 4096);
  ::mallctl("arena.4096.purge", nullptr, nullptr, nullptr, 0);
}

}  // namespace weir::proxy::serve

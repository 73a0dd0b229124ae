// Tries until there is memory, where nobody would ask again: a loop's wait for its sockets, a timer's next tick.
#pragma once

#include <chrono>
#include <new>
#include <thread>

namespace weir::proxy::net {

/// Returns what `work` returns. Where it throws std::bad_alloc, which must leave all as it was, the thread sleeps for
/// 10 ms and tries again: nothing that it does would come further meanwhile.
template <class Work>
auto once_there_is_memory(const Work& work) {
  for (;;) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
}

}  // namespace weir::proxy::net

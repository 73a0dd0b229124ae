#include "proxy/serve/placement.hpp"

#include <algorithm>

namespace weir::proxy::serve {

exchange::Loop* place_connection(exchange::Shared& shared, std::span<const std::unique_ptr<exchange::Loop>> loops,
                                 std::size_t most) {
  if (shared.connections.fetch_add(1, std::memory_order_relaxed) >= most) {
    shared.connections.fetch_sub(1, std::memory_order_relaxed);
    return nullptr;
  }
  const auto work = [](const std::unique_ptr<exchange::Loop>& loop) {
    return loop->connections.load(std::memory_order_relaxed) + 4 * loop->streams.load(std::memory_order_relaxed);
  };
  auto& loop =
      **std::min_element(loops.begin(), loops.end(), [&](const auto& a, const auto& b) { return work(a) < work(b); });
  loop.connections.fetch_add(1, std::memory_order_relaxed);
  return &loop;
}

}  // namespace weir::proxy::serve

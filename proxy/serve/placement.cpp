#include "proxy/serve/placement.hpp"

#include <algorithm>

namespace weir::proxy::serve {

ConnectionCount place_connection(exchange::Shared& shared, std::span<const std::unique_ptr<exchange::Loop>> loops,
                                 std::size_t most) {
  if (shared.connections.load(std::memory_order_relaxed) >= most) return {};
  return ConnectionCount(**std::ranges::min_element(loops, {}, [](const auto& loop) {
    return loop->connections.load(std::memory_order_relaxed) + 4 * loop->streams.load(std::memory_order_relaxed);
  }));
}

}  // namespace weir::proxy::serve

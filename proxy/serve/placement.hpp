// Which loop serves a new client connection, and whether there is room for it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "proxy/exchange/loop.hpp"

namespace weir::proxy::serve {

/// Counts a client connection for its loop and among all of weir's, wherever the connection is, until this ends.
class ConnectionCount {
 public:
  ConnectionCount() = default;
  explicit ConnectionCount(exchange::Loop& loop) : loop_(&loop) { add(1); }
  ConnectionCount(ConnectionCount&& other) noexcept : loop_(std::exchange(other.loop_, nullptr)) {}
  ConnectionCount& operator=(ConnectionCount&& other) noexcept {
    std::swap(loop_, other.loop_);
    return *this;
  }
  ~ConnectionCount() {
    if (loop_ != nullptr) add(std::size_t(0) - 1);
  }

  /// Returns the connection's loop; null if it has none.
  exchange::Loop* loop() const { return loop_; }

 private:
  void add(std::size_t change) const {
    loop_->connections.fetch_add(change, std::memory_order_relaxed);
    loop_->shared.connections.fetch_add(change, std::memory_order_relaxed);
  }

  exchange::Loop* loop_ = nullptr;
};

/// Places a connection on the loop with the least work. Without a loop, `most` connections are open already. On the
/// control thread.
ConnectionCount place_connection(exchange::Shared& shared, std::span<const std::unique_ptr<exchange::Loop>> loops,
                                 std::size_t most);

}  // namespace weir::proxy::serve

// New client connections on their way from the control thread to a loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "proxy/exchange/loop.hpp"
#include "proxy/net/address.hpp"
#include "proxy/net/address_accounts.hpp"

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

/// A client's connection, as it was accepted.
struct NewClient {
  net::UniqueFd socket{};
  net::PeerAddress address{};
  net::AddressCounts::CountGuard place{};  ///< Counts among the connections of its address.
  ConnectionCount count{};                 ///< Counts for its loop.
};

/// Starts a session for each connection, a few at a time: when hundreds arrive together, the tokens of those under way
/// have their turn between them.
class Arrivals {
 public:
  /// So many sessions start in one turn of the loop. One takes some ten microseconds.
  static constexpr std::size_t at_once = 8;

  using Start = std::function<void(NewClient client)>;

  /// `start` starts a session, on the loop's thread.
  Arrivals(boost::asio::io_context& loop, Start start) : loop_(loop), start_(std::move(start)) {}

  /// Hands a connection to the loop, on any thread.
  void add(NewClient client);

 private:
  void post_start();
  void start_some();

  boost::asio::io_context& loop_;
  const Start start_;
  std::mutex mutex_;
  std::deque<NewClient> waiting_;
  bool posted_ = false;  ///< A handler that starts some is posted, or about to be, or runs.
};

}  // namespace weir::proxy::serve

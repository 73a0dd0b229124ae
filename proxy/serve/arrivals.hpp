// New client connections on their way from the control thread to a loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

#include "proxy/net/address_counts.hpp"
#include "proxy/net/peer_address.hpp"
#include "proxy/net/unique_fd.hpp"
#include "proxy/serve/placement.hpp"

namespace weir::proxy::serve {

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
  /// Makes up for what there was no memory for: a connection would wait for the next one's arrival.
  void start_waiting();

 private:
  void post_start();
  void start_some();

  boost::asio::io_context& loop_;
  const Start start_;
  std::mutex mutex_;
  std::deque<NewClient> waiting_;
  bool posted_ = false;  ///< A handler that starts some is posted.
};

}  // namespace weir::proxy::serve

// Keeps connections to replicas until their next request. Each loop has its own. A connection keeps no snapshot, so its
// next request sees current settings.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>

#include "metrics/moment.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/net/channel.hpp"

namespace weir::proxy::fleet {

/// Keeps connections until their next request. A connection that the replica has closed, or on which bytes came
/// unasked, is not given out. The poller notes both, so that no system call has to ask. No connection is kept before
/// the first adopt().
class IdleConnections {
 public:
  /// `where` is the replica now. Connections to an address that it no longer has, or by other rules of TLS, are closed.
  std::unique_ptr<net::Channel> take(const SharedReplica& replica, const net::Destination& where, metrics::Moment now);
  /// The connection leads to `where`. Returns false if one connection too many was there, and was closed for it.
  bool put(const SharedReplica& replica, net::Destination where, std::unique_ptr<net::Channel> connection,
           metrics::Moment now);
  /// Closes those past their age, and those that the replica has closed: the poller has noted it. To be called often.
  void drop_old(metrics::Moment now);
  /// Follows a change of the settings: closes the connections of replicas that this snapshot does not name,
  /// and the oldest of those that it names where it keeps fewer.
  void adopt(const Snapshot& snapshot);

 private:
  struct Idle {
    std::unique_ptr<net::Channel> connection;
    net::Destination where;
    metrics::Moment since;
  };
  std::size_t most_ = 0;
  std::chrono::steady_clock::duration longest_{};
  std::unordered_map<std::uint64_t, std::deque<Idle>> idle_;  ///< The key is SharedReplica::id; the oldest comes first.
};

}  // namespace weir::proxy::fleet

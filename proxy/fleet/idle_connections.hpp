// Connections to replicas that wait for their next request, each loop its own.
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>

#include "metrics/moment.hpp"
#include "proxy/fleet/fleet.hpp"
#include "proxy/net/channel.hpp"

namespace weir::proxy::fleet {

/// Connections that wait for their next request. One that the replica has closed, or on which bytes came unasked, is
/// not given out: the poller notes both, so that no system call has to ask.
class IdleConnections {
 public:
  IdleConnections(std::size_t most, std::chrono::steady_clock::duration longest) : most_(most), longest_(longest) {}

  std::unique_ptr<net::Channel> take(const ReplicaRuntime& replica, metrics::Moment now);
  void put(const ReplicaRuntime& replica, std::unique_ptr<net::Channel> connection, metrics::Moment now);
  void drop_old(metrics::Moment now);

 private:
  struct Idle {
    std::unique_ptr<net::Channel> connection;
    metrics::Moment since;
  };
  std::size_t most_;
  std::chrono::steady_clock::duration longest_;
  std::unordered_map<const ReplicaRuntime*, std::deque<Idle>> idle_;  ///< Oldest first.
};

}  // namespace weir::proxy::fleet

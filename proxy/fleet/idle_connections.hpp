// Connections to replicas that wait for their next request, each loop its own.
#pragma once

#include <deque>
#include <optional>
#include <unordered_map>

#include "metrics/moment.hpp"
#include "proxy/fleet/fleet.hpp"
#include "proxy/net/unique_fd.hpp"

namespace weir::proxy::fleet {

/// Connections that wait for their next request. One that the replica has closed, or on which bytes came unasked, is
/// not given out.
class IdleConnections {
 public:
  IdleConnections(std::size_t most, std::chrono::steady_clock::duration longest) : most_(most), longest_(longest) {}

  std::optional<net::UniqueFd> take(const ReplicaRuntime& replica, metrics::Moment now);
  void put(const ReplicaRuntime& replica, net::UniqueFd connection, metrics::Moment now);
  void drop_old(metrics::Moment now);

 private:
  struct Idle {
    net::UniqueFd connection;
    metrics::Moment since;
  };
  std::size_t most_;
  std::chrono::steady_clock::duration longest_;
  std::unordered_map<const ReplicaRuntime*, std::deque<Idle>> idle_;  ///< Oldest first.
};

}  // namespace weir::proxy::fleet

// Connections to replicas: opened without blocking, kept alive and used again, each loop its own.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>

#include "metrics/moment.hpp"
#include "proxy/fleet.hpp"
#include "proxy/unique_fd.hpp"

namespace weir::proxy {

/// Begins to connect; the socket turns writable when that is over. Empty where the system refuses at once: errno says
/// why.
UniqueFd begin_connect(const boost::asio::ip::tcp::endpoint& endpoint);
/// In place of an errno: the replica's host name has not been resolved yet.
inline constexpr int name_unknown = -1;
/// "Connection refused", as a part of a sentence.
std::string connect_error_text(int error);
/// The connection failed for want of something of weir's own (descriptors, local addresses, memory), not by the
/// replica's doing.
bool is_own_want(int error);
/// The error of a connection attempt that is over; 0 = connected.
int connect_error(int fd);

/// Connections that wait for their next request. One that the replica has closed, or on which bytes came unasked, is
/// not given out.
class IdleConnections {
 public:
  IdleConnections(std::size_t most, std::chrono::steady_clock::duration longest) : most_(most), longest_(longest) {}

  std::optional<UniqueFd> take(const ReplicaRuntime& replica, metrics::Moment now);
  void put(const ReplicaRuntime& replica, UniqueFd connection, metrics::Moment now);
  void drop_old(metrics::Moment now);

 private:
  struct Idle {
    UniqueFd connection;
    metrics::Moment since;
  };
  std::size_t most_;
  std::chrono::steady_clock::duration longest_;
  std::unordered_map<const ReplicaRuntime*, std::deque<Idle>> idle_;  ///< Oldest first.
};

}  // namespace weir::proxy

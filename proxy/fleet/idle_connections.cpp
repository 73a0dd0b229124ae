#include "proxy/fleet/idle_connections.hpp"

#include <sys/socket.h>

#include <cerrno>

namespace weir::proxy::fleet {

std::optional<net::UniqueFd> IdleConnections::take(const ReplicaRuntime& replica, metrics::Moment now) {
  auto& waiting = idle_[&replica];
  while (!waiting.empty()) {
    auto idle = std::move(waiting.back());
    waiting.pop_back();
    char byte = 0;
    const bool quiet = ::recv(idle.connection.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
    if (quiet && now - idle.since < longest_) return std::move(idle.connection);
  }
  return std::nullopt;
}

void IdleConnections::put(const ReplicaRuntime& replica, net::UniqueFd connection, metrics::Moment now) {
  auto& waiting = idle_[&replica];
  waiting.push_back({std::move(connection), now});
  if (waiting.size() > most_) waiting.pop_front();
}

void IdleConnections::drop_old(metrics::Moment now) {
  for (auto& [replica, waiting] : idle_)
    while (!waiting.empty() && now - waiting.front().since >= longest_) waiting.pop_front();
}

}  // namespace weir::proxy::fleet

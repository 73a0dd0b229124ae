#include "proxy/fleet/idle_connections.hpp"

#include <utility>

namespace weir::proxy::fleet {

std::unique_ptr<net::Channel> IdleConnections::take(const ReplicaRuntime& replica, metrics::Moment now) {
  auto& waiting = idle_[&replica];
  while (!waiting.empty()) {
    auto idle = std::move(waiting.back());
    waiting.pop_back();
    if (now - idle.since < longest_ && idle.connection->is_quiet()) return std::move(idle.connection);
  }
  return nullptr;
}

void IdleConnections::put(const ReplicaRuntime& replica, std::unique_ptr<net::Channel> connection,
                          metrics::Moment now) {
  auto& waiting = idle_[&replica];
  waiting.push_back({std::move(connection), now});
  if (waiting.size() > most_) waiting.pop_front();
}

void IdleConnections::drop_old(metrics::Moment now) {
  for (auto& [replica, waiting] : idle_)
    while (!waiting.empty() && now - waiting.front().since >= longest_) waiting.pop_front();
}

}  // namespace weir::proxy::fleet

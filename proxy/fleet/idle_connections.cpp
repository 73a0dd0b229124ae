#include "proxy/fleet/idle_connections.hpp"

#include <unordered_set>
#include <utility>

#include "metrics/ticks.hpp"

namespace weir::proxy::fleet {

std::unique_ptr<net::Channel> IdleConnections::take(const SharedReplica& replica, const net::Destination& where,
                                                    metrics::Moment now) {
  auto& waiting = idle_[replica.id];
  while (!waiting.empty()) {
    auto idle = std::move(waiting.back());
    waiting.pop_back();
    if (where == idle.where && now - idle.since < longest_ && idle.connection->is_quiet())
      return std::move(idle.connection);
  }
  return nullptr;
}

bool IdleConnections::put(const SharedReplica& replica, net::Destination where,
                          std::unique_ptr<net::Channel> connection, metrics::Moment now) {
  auto& waiting = idle_[replica.id];
  waiting.push_back({std::move(connection), std::move(where), now});
  if (waiting.size() <= most_) return true;
  waiting.pop_front();
  return most_ == 0;  // A limit of 0 is no shortage.
}

void IdleConnections::drop_old(metrics::Moment now) {
  for (auto& [replica, waiting] : idle_)
    std::erase_if(waiting,
                  [&](const Idle& idle) { return now - idle.since >= longest_ || idle.connection->hung_up(); });
}

void IdleConnections::adopt(const Snapshot& snapshot) {
  most_ = snapshot.settings.limits.idle_upstream_connections;
  longest_ = metrics::ticks(snapshot.settings.limits.upstream_idle);
  std::unordered_set<std::uint64_t> named;
  for (const auto& pool : snapshot.all_pools)
    for (const auto& replica : pool->replicas) named.insert(replica->state->id);
  std::erase_if(idle_, [&named](const auto& one) { return !named.contains(one.first); });
  for (auto& [replica, waiting] : idle_)
    while (waiting.size() > most_) waiting.pop_front();
}

}  // namespace weir::proxy::fleet

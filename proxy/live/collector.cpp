#include "proxy/live/collector.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "proxy/live/peers.hpp"

namespace weir::proxy::live {
namespace {

/// Sets each replica's share of the requests of its pool.
void share_out(std::span<ReplicaNow> rows) {
  double all = 0;
  for (const auto& row : rows) all += row.requests_60s;
  for (auto& row : rows) row.share = share_of(row.requests_60s, all);
}

}  // namespace

void Collector::finished(const metrics::record::RequestRecord& record, const metrics::record::Figures& figures,
                         Moment now) {
  const bool was_sent = record.role == metrics::Role::primary || record.mirrored->drop_reason.empty();
  if (was_sent) replicas_.finished(record, figures, now);
  if (record.role == metrics::Role::shadow) return;
  pools_.finished(record, figures, now);
  keys_.finished(record);
}

Now Collector::take(const fleet::Snapshot& snapshot, const Surroundings& around, const std::string& instance,
                    bool draws, std::size_t passed, Moment at, Wall time) {
  Now now;
  now.at = at;
  now.time = time;
  now.serial = serial_ += passed;
  static_cast<Surroundings&>(now.weir) = around;
  const auto held = exposition_.hold_bounds();
  own_.take(now, snapshot, instance, passed);
  snapshot.each_pool([&](const std::shared_ptr<const fleet::PoolRuntime>& pool) {
    take_pool(now, snapshot, *pool, draws, passed);
  });
  for (const auto& shadow : snapshot.shadows) shadows_.take(now, *shadow, passed);
  compare_with_peers(now.replicas);
  keys_.take(now, snapshot.keys.get(), passed);
  replicas_.end_second();
  pools_.end_second(passed);
  shadows_.end_second(passed);
  return now;
}

void Collector::complete(Now& now, const fleet::Snapshot& snapshot) {
  own_.complete(now);
  pools_.complete(now);
  replicas_.complete(now);
  if (snapshot.keys) keys_.list(now, *snapshot.keys);
}

void Collector::take_pool(Now& now, const fleet::Snapshot& snapshot, const fleet::PoolRuntime& pool, bool draws,
                          std::size_t passed) {
  const auto load = pool.balancer->figures().load(now.at);
  const auto first_row = now.replicas.size();
  take_replicas(now, snapshot, pool, load, draws, passed);
  const auto rows = std::span(now.replicas).subspan(first_row);
  share_out(rows);
  if (pool.shadow.empty()) pools_.take(now, snapshot, pool, load, rows, draws, passed);
}

void Collector::take_replicas(Now& now, const fleet::Snapshot& snapshot, const fleet::PoolRuntime& pool,
                              const balancer::PoolLoad& load, bool draws, std::size_t passed) {
  std::map<balancer::Serial, const balancer::ReplicaLoad*> loads;
  for (const auto& one : load.replicas) loads.emplace(one.key.serial, &one);
  static const balancer::ReplicaLoad none{};
  const auto load_of = [&](const fleet::Replica& replica) -> const balancer::ReplicaLoad& {
    const auto found = loads.find(replica.key.serial);
    return found == loads.end() ? none : *found->second;
  };
  // Replicas of one name share a series, which counts in the first of their rows.
  std::set<const metrics::series::ReplicaSeries*> counted;
  const auto take_row = [&](const fleet::Replica& replica, std::optional<Moment> leaves_since) {
    const bool counts = counted.insert(replica.series.get()).second;
    replicas_.take(now, {pool, replica, load_of(replica), leaves_since, counts}, draws, passed);
  };
  for (const auto& replica : pool.replicas) take_row(*replica, std::nullopt);
  for (const auto& one : snapshot.leaving)
    if (one.balancer == pool.balancer && !pool.has(*one.replica)) take_row(*one.replica, one.since);
}

}  // namespace weir::proxy::live

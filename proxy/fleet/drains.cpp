// The part of Fleet for replicas that drain, and replicas that leave.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>

#include "metrics/ticks.hpp"
#include "proxy/events/events.hpp"
#include "proxy/fleet/fleet.hpp"

namespace weir::proxy::fleet {
namespace {

using Clock = std::chrono::steady_clock;

/// True if the pool has no other replica to which requests could go.
bool is_last(const PoolRuntime& pool, const Replica& replica, Clock::time_point now) {
  return pool.may_serve(replica, now) && std::ranges::none_of(pool.replicas, [&](const auto& other) {
    return other.get() != &replica && pool.may_serve(*other, now);
  });
}

/// Ends the requests on a replica whose time is over. Loops see the flag within a tick.
void cut(const Replica& replica, std::uint32_t left) {
  if (replica.state->cut.exchange(true)) return;
  events::warn(events::What::drain, replica.settings.name, "replica '{}': limits.drain is over; {} requests are cut",
               replica.settings.name, left);
}

}  // namespace

Fleet::Draining Fleet::set_draining(const std::string& name, bool draining, bool force) {
  const auto now = Clock::now();
  const auto before = snapshot();
  for (const auto& pool : before->pools) {
    for (const auto& replica : pool->replicas) {
      if (replica->settings.name != name) continue;
      const auto who = Drains::who(replica->settings);
      if (drains_.has(who) == draining) return Draining::already;
      if (draining && !force && is_last(*pool, *replica, now)) return Draining::last_one;
      if (draining) {
        drains_.begin(who);
        events::info(events::What::drain, name, "replica '{}' drains: it takes no more requests; {} are on it", name,
                     pool->balancer->figures().in_flight(replica->key));
      } else {
        drains_.end(who);
        events::info(events::What::drain, name, "replica '{}' drains no more: it takes requests again", name);
      }
      adopt(before->settings, tls_, before->keys);  // The files of TLS may have changed. Only a reload reads them.
      return Draining::set;
    }
  }
  return Draining::unknown;
}

void Fleet::forget_drains(const Snapshot& snapshot, metrics::Moment now) {
  if (drains_.empty()) return;
  std::set<Drains::Who> there;
  std::set<std::string> expanding;
  for (const auto& pool : snapshot.pools) {
    for (const auto& one : pool->settings.replicas)
      if (one.expand) expanding.insert(one.name);
    for (const auto& one : pool->replicas) there.insert(Drains::who(one->settings));
  }
  drains_.forget(there, expanding, now);
}

void Fleet::look_after_drains() {
  const auto now = Clock::now();
  const auto before = snapshot();
  forget_drains(*before, now);
  const auto longest = metrics::ticks(before->settings.limits.drain);
  const auto is_over = [&](balancer::Pool& pool, const Replica& replica, metrics::Moment since) {
    const auto left = pool.figures().in_flight(replica.key);
    if (left != 0 && now - since >= longest) cut(replica, left);
    return left == 0;
  };
  for (const auto& pool : before->pools) {
    for (const auto& replica : pool->replicas) {
      const auto who = Drains::who(replica->settings);
      if (!drains_.has(who)) continue;
      if (!is_over(*pool->balancer, *replica, pool->balancer->health().of(replica->key, now).since)) continue;
      if (drains_.note_over(who))
        events::info(events::What::drain, replica->settings.name, "replica '{}' is drained: nothing is left on it",
                     replica->settings.name);
    }
  }
  std::erase_if(last_waited_, [&](const auto& waited) {
    return std::ranges::none_of(before->leaving_pools,
                                [&](const auto& pool) { return pool->balancer.get() == waited.first; });
  });
  std::vector<LeavingReplica> still;
  for (const auto& one : before->leaving) {
    const bool waited_for = before->is_waited_for(*one.balancer, now);
    if (waited_for) last_waited_[one.balancer.get()] = now;
    // A replica for which requests waited has limits.drain from the end of the waiting.
    const auto waited = last_waited_.find(one.balancer.get());
    const auto since = waited == last_waited_.end() ? one.since : std::max(one.since, waited->second);
    if (!is_over(*one.balancer, *one.replica, since) || waited_for) {
      still.push_back(one);
      continue;
    }
    events::info(events::What::drain, one.replica->settings.name,
                 "replica '{}' at {} is gone: its last request has ended", one.replica->settings.name,
                 one.replica->settings.url.authority);
  }
  // A request holds the snapshot in which it began, and with it a pool with this balancer; not this one, if another
  // reload came between.
  const auto is_known = [now](const std::shared_ptr<const PoolRuntime>& pool) {
    if (pool.use_count() > 1) return true;
    auto& figures = pool->balancer->figures();
    return figures.in_flight() > 0 || figures.queue(now).waiting > 0;
  };
  std::vector<std::shared_ptr<const PoolRuntime>> known;
  std::ranges::copy_if(before->leaving_pools, std::back_inserter(known), is_known);
  if (still.size() == before->leaving.size() && known.size() == before->leaving_pools.size()) return;
  auto after = Snapshot::changed(before.get(), [&](Snapshot& next) {
    next.leaving = std::move(still);
    next.leaving_pools = std::move(known);
  });
  retire_what_left(*before, *after);
  snapshot_.set(std::move(after));
}

}  // namespace weir::proxy::fleet

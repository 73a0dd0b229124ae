// Makes snapshots: the control thread adopts settings, and every loop takes the published snapshot.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "balancer/affinity.hpp"
#include "balancer/story/retries.hpp"
#include "config/settings.hpp"
#include "metrics/series/exposition.hpp"
#include "proxy/fleet/discovery.hpp"
#include "proxy/fleet/snapshot.hpp"

namespace weir::proxy::fleet {

class Fleet {
 public:
  /// `sink` takes what pools grant to requests that wait; without one, nobody waits.
  Fleet(const config::Settings& settings, metrics::series::Exposition& exposition, std::uint64_t seed,
        balancer::GrantSink* sink = nullptr);

  /// Returns the current snapshot. Any thread may call it. It costs a lock and a count.
  std::shared_ptr<const Snapshot> snapshot() const { return snapshot_.get(); }
  /// Publishes a snapshot of these settings, on the control thread. A pool keeps its books, and a replica its state.
  /// The series of pools and replicas that are gone are exported until their last request has been counted. Requests in
  /// flight go on in the snapshot in which they began. What was discovered stays. A replica that is no longer named
  /// stays as one that leaves until its last request has ended. Throws std::runtime_error if the files of TLS cannot be
  /// used; then nothing has changed.
  void adopt(const config::Settings& settings);
  /// Publishes a snapshot of the settings in use with these members of names, through the same door.
  void adopt(Discovered discovered);
  /// Reads the files of TLS that these settings name, so that nothing of adopt() can fail. Throws in the same way.
  net::tls::Contexts prepare(const config::Settings& settings) const;
  /// Returns the clients' keys of these settings, with the counts of the ones in use; null where clients need none. The
  /// same object where nothing has changed. Any thread may call it; it takes milliseconds for ten thousand keys.
  /// Throws std::runtime_error if the system has no random numbers.
  std::shared_ptr<const keys::ClientKeys> keys_of(const config::Server& server) const;
  /// Publishes a snapshot of these settings, with the results of prepare() and keys_of() for them.
  void adopt(const config::Settings& settings, net::tls::Contexts tls, std::shared_ptr<const keys::ClientKeys> keys);
  /// Returns the clients' keys of earlier snapshots that no request uses any more, for a thread to free them: to free
  /// ten thousand would hold up a loop. The control thread calls it often.
  std::vector<std::shared_ptr<const keys::ClientKeys>> take_unused_keys();

  /// Lets weir ask replicas for usage again that have refused to be asked. For a reload, on the control thread.
  void ask_for_usage_again();

  /// How set_draining() ended.
  enum class Draining : std::uint8_t {
    set,
    already,   ///< The replica was in that state before.
    unknown,   ///< No replica has this name.
    last_one,  ///< No other replica of its pool is up. With `force` it drains all the same.
  };
  /// Lets a replica drain, or take requests again. This holds as long as the settings name it; see Drains. On the
  /// control thread.
  Draining set_draining(const std::string& name, bool draining, bool force);
  /// Forgets replicas without requests, and cuts requests that run after limits.drain. To be called often, on the
  /// control thread.
  void look_after_drains();

  std::size_t in_flight() const;
  balancer::story::RetryBudget& retries() { return retries_; }
  balancer::Homes& homes() { return homes_; }
  metrics::series::InternalErrors& internal_errors() const { return exposition_.internal_errors; }

 private:
  std::shared_ptr<PoolRuntime> make_pool(const config::Pool& settings, const std::string& shadow_name,
                                         const std::shared_ptr<const ShadowState>& shadow,
                                         const std::optional<config::Rollout>& rollout, const config::Measure& measure,
                                         const Snapshot* before, metrics::Moment now);
  std::shared_ptr<Replica> make_replica(const ReplicaPlace& place, const config::Pool& pool, const Replica* old,
                                        const std::string& role, const config::Measure& measure);
  void make_pools(Snapshot& next, const Snapshot* before, metrics::Moment now);
  void forget_drains(const Snapshot& snapshot, metrics::Moment now);
  void retire_what_left(const Snapshot& before, const Snapshot& after);

  metrics::series::Exposition& exposition_;
  balancer::GrantSink* const sink_;
  std::uint64_t seed_;
  std::uint64_t next_id_ = 1;
  balancer::story::RetryBudget retries_;
  balancer::Homes homes_;
  Drains drains_;
  /// When requests last waited in a pool that leaves.
  std::map<const balancer::Pool*, metrics::Moment> last_waited_;
  Published<std::shared_ptr<const Snapshot>> snapshot_;
  Discovered discovered_;  ///< The control thread uses it, and the next one.
  net::tls::Contexts tls_;
  std::vector<std::shared_ptr<const keys::ClientKeys>> old_keys_;  ///< The keys of earlier snapshots.
};

}  // namespace weir::proxy::fleet

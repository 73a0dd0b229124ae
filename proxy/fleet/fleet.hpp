// Makes worlds: the control thread adopts settings, and every loop takes the published world.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "config/settings.hpp"
#include "metrics/series/exposition.hpp"
#include "proxy/fleet/discovery.hpp"
#include "proxy/fleet/published.hpp"
#include "proxy/fleet/world.hpp"

namespace weir::proxy::fleet {

/// Limits how many retries may run at a time: a share of the requests in flight, at least three. Any thread may use it.
class RetryBudget {
 public:
  explicit RetryBudget(double share) : share_(share) {}
  void set_share(double share) { share_.store(share, std::memory_order_relaxed); }
  bool take(std::size_t in_flight);
  void give_back() { under_way_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  std::atomic<double> share_;
  std::atomic<std::size_t> under_way_{0};
};

/// How often those who work on every replica look whether there is a new world.
inline constexpr std::chrono::milliseconds look_for_a_new_world_every{200};

class Fleet {
 public:
  Fleet(const config::Settings& settings, metrics::series::Exposition& exposition, std::uint64_t seed);

  /// Returns the current world. Any thread may call it. It costs a lock and a count.
  std::shared_ptr<const World> world() const { return world_.get(); }
  /// Publishes a world of these settings, on the control thread. A pool keeps its books while its policy stays, and a
  /// replica keeps its state. The series of pools and replicas that are gone are no longer exported. Requests in flight
  /// go on in the world in which they began. What was discovered stays.
  void adopt(const config::Settings& settings);
  /// Publishes a world of the settings in use with these members of names, through the same door.
  void adopt(Discovered discovered);

  std::size_t in_flight() const;
  /// Some replica of some pool has an address, and is up or starts.
  bool any_up() const;
  RetryBudget& retries() { return retries_; }

 private:
  metrics::series::Exposition& exposition_;
  std::uint64_t seed_;
  std::uint64_t next_id_ = 1;
  RetryBudget retries_;
  Published<std::shared_ptr<const World>> world_;
  Discovered discovered_;  ///< The control thread uses it.
};

}  // namespace weir::proxy::fleet

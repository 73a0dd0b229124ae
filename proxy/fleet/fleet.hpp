// The pools and replicas that settings name, as they run: made once by the control thread, read by every loop.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "balancer/pool.hpp"
#include "config/settings.hpp"
#include "metrics/series/exposition.hpp"
#include "proxy/fleet/failure_notes.hpp"
#include "proxy/fleet/published.hpp"
#include "proxy/fleet/second_opinions.hpp"

namespace weir::proxy::fleet {

struct ReplicaRuntime {
  config::Replica settings;
  std::string pool;
  balancer::ReplicaIndex index = 0;
  metrics::series::ReplicaSeries* series = nullptr;
  /// Set by the control thread when its name is resolved, read at each connect.
  Published<std::optional<boost::asio::ip::tcp::endpoint>> address;
  bool inject_usage = true, inject_continuous_usage = false;
  std::atomic<bool> injection_disabled{false};  ///< It refused the usage option that weir adds.
  /// A bit for each API in which it has taken that option well: what it refuses then, it refuses for another cause.
  std::atomic<std::uint32_t> took_injection{0};
  /// A bit for each API of whose streams it tells the counts unasked (llama.cpp), as its last answers showed.
  std::atomic<std::uint32_t> tells_counts{0};
  FailureNotes failures;  ///< What the log says of its failures.
};

struct PoolRuntime {
  config::Pool settings;
  std::shared_ptr<balancer::Pool> balancer;
  std::vector<std::unique_ptr<ReplicaRuntime>> replicas;  ///< By ReplicaIndex.
  metrics::series::ReplicaSeries* unassigned = nullptr;   ///< Of requests that reached none of them.
  SecondOpinions opinions;
};

/// How many retries may run at a time: a share of the requests in flight, at least three. Any thread.
class RetryBudget {
 public:
  explicit RetryBudget(double share) : share_(share) {}
  bool take(std::size_t in_flight);
  void give_back() { under_way_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  double share_;
  std::atomic<std::size_t> under_way_{0};
};

class Fleet {
 public:
  Fleet(const config::Settings& settings, metrics::series::Exposition& exposition, std::uint64_t seed);

  const std::vector<std::unique_ptr<PoolRuntime>>& pools() const { return pools_; }
  /// The first pool that serves this model ("" = the request names none: the first pool).
  PoolRuntime* pool_for(std::string_view model) const;
  /// The models that pools name, for an error's sentence.
  std::string known_models() const;
  std::size_t in_flight() const;
  RetryBudget& retries() { return retries_; }

 private:
  std::vector<std::unique_ptr<PoolRuntime>> pools_;
  RetryBudget retries_;
};

}  // namespace weir::proxy::fleet

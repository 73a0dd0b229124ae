// The settings and the fleet as they are at one time: an immutable snapshot, taken once a request and kept to its end.
//
// What lives longer than a snapshot is shared by those that name it: a pool's books, a replica's state. A replica is
// (pool, name, url): with another url it is another one.
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

/// What has been learned of a replica; shared by all worlds that name it. Any thread.
struct ReplicaState {
  const std::uint64_t id;  ///< Of this process, and never used again.
  /// Set by the control thread when its name is resolved, read at each connect.
  Published<std::optional<boost::asio::ip::tcp::endpoint>> address{};
  std::atomic<bool> injection_disabled{false};  ///< It refused the usage option that weir adds.
  /// A bit for each API in which it has taken that option well: what it refuses then, it refuses for another cause.
  std::atomic<std::uint32_t> took_injection{0};
  /// A bit for each API of whose streams it tells the counts unasked (llama.cpp), as its last answers showed.
  std::atomic<std::uint32_t> tells_counts{0};
  FailureNotes failures{};  ///< What the log says of its failures.
  /// It has no health path, so that a probe only connects. The control thread's.
  bool probe_connects = false;
};

/// A replica as one world knows it.
struct ReplicaRuntime {
  config::Replica settings;
  std::string pool;
  balancer::ReplicaKey key;  ///< In its pool's books.
  bool inject_usage = true, inject_continuous_usage = false;
  std::shared_ptr<metrics::series::ReplicaSeries> series;
  std::shared_ptr<ReplicaState> state;
};

struct PoolRuntime {
  config::Pool settings;
  std::shared_ptr<balancer::Pool> balancer;
  std::vector<std::shared_ptr<ReplicaRuntime>> replicas;       ///< In the order of the file.
  std::shared_ptr<metrics::series::ReplicaSeries> unassigned;  ///< Of requests that reached none of them.
  std::shared_ptr<SecondOpinions> opinions;
};

struct World {
  config::Settings settings;
  std::vector<std::unique_ptr<const PoolRuntime>> pools;

  /// The first pool that serves this model ("" = the request names none: the first pool).
  const PoolRuntime* pool_for(std::string_view model) const;
  /// The models that pools name, for an error's sentence.
  std::string known_models() const;
};

}  // namespace weir::proxy::fleet

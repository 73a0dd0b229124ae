// All series of MEASUREMENT.md, section 3, gathered from the shards at a scrape through one prometheus::Collectable.
#pragma once

#include <prometheus/collectable.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/series/loop_shard.hpp"
#include "metrics/series/shard.hpp"

namespace weir::metrics::series {

struct ReplicaLabels {
  std::string pool, replica, config;
  std::string role = "primary";
  bool operator==(const ReplicaLabels&) const = default;
};

/// What a replica is like now, as plain values; asked for at each scrape.
struct ReplicaGauges {
  std::uint64_t queued_prefill_tokens = 0, queued_decode_tokens = 0, resident_tokens = 0;
  std::uint32_t in_flight = 0;
  std::optional<std::uint64_t> kv_tokens;
  double oldest_unanswered_seconds = 0;
  double busy_seconds = 0;
  std::array<double, 2> in_flight_seconds{};  ///< prefill, decode
  bool injection_disabled = false;
  std::string gpu;                                                             ///< The name that the settings give.
  std::vector<std::pair<std::string_view, std::uint64_t>> balancer_fallbacks;  ///< by reason
};

/// One replica's shards, one a loop.
class ReplicaSeries : public std::enable_shared_from_this<ReplicaSeries> {
 public:
  /// The objectives of its pool are counted, of all in `slos`; `bounds` must outlive it.
  ReplicaSeries(ReplicaLabels labels, std::size_t loops, const Bounds& bounds, std::span<const config::Slo> slos);
  const ReplicaLabels& labels() const { return labels_; }
  const std::vector<config::Slo>& slos() const { return slos_; }
  ReplicaShard& shard(std::size_t loop) { return *shards_[loop]; }
  const std::vector<std::unique_ptr<ReplicaShard>>& shards() const { return shards_; }
  std::function<ReplicaGauges()> gauges;  ///< Set and called on the scraping thread.

 private:
  ReplicaLabels labels_;
  std::vector<config::Slo> slos_;
  std::vector<std::unique_ptr<ReplicaShard>> shards_;
};

struct BuildInfo {
  std::string version, compiler;
};

/// Thread-safe: add() and Collect() take a lock, writers of shards none.
class Exposition : public prometheus::Collectable {
 public:
  Exposition(std::size_t loops, BuildInfo build, std::vector<config::Slo> slos = {});
  ~Exposition() override;

  /// A replica's series; each exists from now on, or from its first use on, as metrics/series/series.hpp says. The
  /// object stays until it is retired; the same labels get the same object, so that no series is exported twice and
  /// none goes backwards. With replica "": for requests of this pool that reached none of its replicas; of these only
  /// what such a request can have is exported: weir_requests_total, weir_api_requests_total, weir_unparsed_total and
  /// weir_slo_requests_total, each with its first use.
  ReplicaSeries& add(ReplicaLabels labels);
  /// The same for requests that no pool was chosen for: all labels but role are "".
  ReplicaSeries& unassigned() { return *unassigned_; }
  /// A replica is gone: its series are exported no more. The object lives on for whoever shares it.
  void retire(const ReplicaSeries& series);
  LoopShard& loop(std::size_t index) { return *loops_[index]; }

  std::function<std::uint64_t()> log_lines_dropped;              ///< Set before the first scrape.
  std::chrono::system_clock::time_point last_successful_load{};  ///< Set before the first scrape.

  /// Every family is there, also without a series: who reads the page can tell what has not been used from what there
  /// is not.
  std::vector<prometheus::MetricFamily> Collect() const override;
  /// Requests counted so far, and those of them that ended well (ok, ok_empty).
  struct Requests {
    std::uint64_t all = 0, well = 0;
  };
  Requests requests() const;
  /// The text format 0.0.4 of Collect().
  std::string text() const;

 private:
  mutable std::mutex mutex_;
  BuildInfo build_;
  std::vector<config::Slo> slos_;
  Bounds bounds_;
  std::vector<std::unique_ptr<LoopShard>> loops_;
  Requests retired_;
  std::vector<std::shared_ptr<ReplicaSeries>> replicas_;  ///< Those without a replica's name included.
  ReplicaSeries* unassigned_;
};

}  // namespace weir::metrics::series

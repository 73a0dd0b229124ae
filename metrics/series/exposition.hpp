// Gathers all series from the shards at a scrape. No request waits for one: shards are read without
// a lock, and the lock of a pool is taken for the figures of one replica at a time (docs/benchmarks.md has the cost).
#pragma once

#include <array>
#include <atomic>
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

#include "metrics/series/own_families.hpp"
#include "metrics/series/shard.hpp"
#include "metrics/series/text_page.hpp"

namespace weir::metrics::series {

struct ReplicaLabels {
  std::string pool, replica, config;
  std::string role = "primary";
  bool operator==(const ReplicaLabels&) const = default;
};

/// Beliefs about a replica's prefix cache, and what became of them.
struct PrefixGauges {
  std::vector<std::pair<std::string_view, std::uint64_t>> tokens;  ///< Each pair is a kind and its count.
  std::vector<std::pair<std::string_view, std::uint64_t>> errors;  ///< The same for directions,
  std::vector<std::pair<std::string_view, std::uint64_t>> wipes;   ///< and for reasons.
  std::uint64_t held = 0, capacity = 0;                            ///< In tokens.
  double believed = 1;                                             ///< 0 to 1.
};

/// A replica's present state as plain values, read at each scrape.
struct ReplicaGauges {
  std::uint64_t queued_prefill_tokens = 0, queued_decode_tokens = 0, resident_tokens = 0;
  std::uint32_t in_flight = 0;
  std::optional<std::uint64_t> kv_tokens;
  std::optional<std::uint32_t> max_in_flight;
  double oldest_unanswered_seconds = 0;
  double busy_seconds = 0;
  std::array<double, 2> in_flight_seconds{};  ///< The two are prefill and decode.
  bool injection_disabled = false;
  ReplicaState state = ReplicaState::up;
  std::string gpu;                      ///< The settings give this name.
  std::string engine, version, model;   ///< The engine told them; "" is unknown.
  std::optional<double> shadow_active;  ///< Only a shadow's replica has it.
  // The engine's own figures; absent where they are unknown or stale.
  std::optional<double> engine_running, engine_waiting, engine_kv_usage;
  std::optional<double> engine_prefix_queries, engine_prefix_hits;
  std::optional<double> ledger_divergence;
  std::optional<double> engine_scrape_seconds;
  std::vector<std::pair<std::string_view, std::uint64_t>> balancer_fallbacks;  ///< Each pair is a reason and its count.
  std::optional<PrefixGauges> prefix;  ///< Absent where the pool does not look at prefixes.
};

/// The requests that wait in a pool, and the tokens of their prompts.
struct Waiting {
  std::uint64_t requests = 0, tokens = 0;
};

/// Returns what the requests of a pool want, those that wait included, as a share of what its replicas that are up or
/// starting can take: the larger of requests by max_in_flight and of tokens by kv_tokens. A bound counts where each of
/// these replicas has it. Returns nothing if none counts, or if no replica is up or starting.
std::optional<double> saturation(const Waiting& waiting, std::span<const ReplicaGauges* const> replicas);

/// How many requests have been counted, and how many of them ended well (ok, ok_empty).
struct Requests {
  std::uint64_t all = 0, well = 0;
};
struct RetiredRequests {
  std::atomic<std::uint64_t> all{0}, well{0};
};

/// The shards of a replica: one for each loop.
class ReplicaSeries : public std::enable_shared_from_this<ReplicaSeries> {
 public:
  /// Counts the objectives of the replica's pool, selected from all in `slos`.
  ReplicaSeries(ReplicaLabels labels, std::size_t loops, const std::shared_ptr<const Objectives>& slos);
  ~ReplicaSeries();
  const ReplicaLabels& labels() const { return labels_; }
  /// Returns the labels as the page has them: `pool="chat",replica=...`.
  const std::string& label_text() const { return label_text_; }
  ReplicaShard& shard(std::size_t loop) { return *shards_[loop]; }
  const std::vector<std::unique_ptr<ReplicaShard>>& shards() const { return shards_; }
  /// Returns what waits for a replica. It is set where replica is "" and there is a pool.
  std::function<Waiting()> waiting;
  std::function<ReplicaGauges()> gauges;  ///< Set and called on the scraping thread.
  std::shared_ptr<RetiredRequests>
      counts_into;  ///< Set once the replica is gone: its requests are added here at the end.

 private:
  ReplicaLabels labels_;
  std::string label_text_;
  std::vector<std::unique_ptr<ReplicaShard>> shards_;
};

/// Every function is thread-safe: add() and text() take a lock, writers of shards take none.
class Exposition : public OwnSources {
 public:
  Exposition(std::size_t loops, BuildInfo build, std::vector<config::Slo> slos = {});
  ~Exposition();

  /// Adds a replica's series. Each series exists from now on, or from its first use on, as metrics/series/series.hpp
  /// says. The object stays until it is retired. The same labels get the same object, so no series is exported twice
  /// and none goes backwards. Replica "" stands for requests of this pool that reached none of its replicas. It exports
  /// only what such a request can have: weir_requests_total, weir_api_requests_total, weir_unparsed_total and
  /// weir_slo_requests_total, each with its first use.
  ReplicaSeries& add(ReplicaLabels labels);
  /// Returns the series of requests for which no pool was chosen: all labels but role are "".
  ReplicaSeries& unassigned() { return *unassigned_; }
  /// Says that a replica is gone. Its counters stay on the page until nobody else owns them: requests that still run
  /// are counted. Should it come back before, it goes on with them.
  void retire(const ReplicaSeries& series);

  /// Requests are compared with these from now on, once each loop follows.
  void set_slos(const std::vector<config::Slo>& slos);
  /// The loop compares with the objectives that were set last, in its own shard and on its own thread. Returns false if
  /// a scrape was in the way: it is to try again.
  bool follow(ReplicaSeries& series, std::size_t loop);

  /// While the result is held, no shard takes other bounds: whoever reads histograms or objectives outside text() holds
  /// it. A loop that would follow meanwhile tries again.
  std::unique_lock<std::mutex> hold_bounds() const { return std::unique_lock(following_); }

  /// Returns the page in text format 0.0.4: the families of replicas and pools, then those of weir itself, each in the
  /// order of their names. Every family is on it, even one without series, so that a reader can tell an unused series
  /// from one that does not exist.
  std::string text() const;
  Requests requests() const;

  /// The families that the page can have: those of replicas and pools, and those of weir itself.
  struct Families {
    std::vector<Family> of_replicas, of_weir;
  };
  Families families() const;

 private:
  void drop_unowned() const;
  std::shared_ptr<const Objectives> objectives() const;

  mutable std::mutex following_;  ///< No shard takes other bounds while a scrape reads them.
  mutable std::mutex mutex_;
  std::shared_ptr<const Objectives> objectives_;
  const std::shared_ptr<RetiredRequests> retired_ = std::make_shared<RetiredRequests>();
  mutable std::vector<std::shared_ptr<ReplicaSeries>> replicas_;  ///< Includes those without a replica's name.
  ReplicaSeries* unassigned_;
  mutable std::atomic<std::size_t> page_bytes_{0};  ///< The length of the latest page.
};

}  // namespace weir::metrics::series

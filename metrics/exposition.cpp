#include "metrics/exposition.hpp"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <sstream>
#include <utility>

#include "metrics/process_series.hpp"
#include "metrics/series.hpp"

namespace weir::metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;
using OwnLabels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

constexpr std::array<std::string_view, 2> phases_in_flight{"prefill", "decode"};

Labels labels_of(const ReplicaLabels& of) {
  return {{"pool", of.pool}, {"replica", of.replica}, {"config", of.config}, {"role", of.role}};
}

ClientMetric labelled(Labels labels, OwnLabels own) {
  for (const auto& [name, value] : own) labels.push_back({std::string(name), std::string(value)});
  ClientMetric metric;
  metric.label = std::move(labels);
  return metric;
}

/// Adds up what the loops wrote of one series.
template <typename Pick>
std::uint64_t sum_of(const ReplicaSeries& replica, Pick pick) {
  std::uint64_t sum = 0;
  for (const auto& shard : replica.shards()) sum += pick(*shard).value();
  return sum;
}

/// Adds the histograms of all shards up. `_count` is the sum of the very buckets that are exported, not a number of its
/// own that could differ by an observation.
template <typename Shards, typename Pick>
void fill(ClientMetric::Histogram& out, const Shards& shards, double unit, Pick pick) {
  const auto bounds = pick(*shards.front()).bounds();
  std::uint64_t sum = 0;
  std::vector<std::uint64_t> counts(bounds.size() + 1);
  for (const auto& shard : shards) {
    const Histogram& histogram = pick(*shard);
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += histogram.bucket(i);
    sum += histogram.sum();
  }
  std::uint64_t cumulative = 0;
  out.bucket.reserve(counts.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    cumulative += counts[i];
    const double bound =
        i < bounds.size() ? static_cast<double>(bounds[i]) / unit : std::numeric_limits<double>::infinity();
    out.bucket.push_back({cumulative, bound});
  }
  out.sample_count = cumulative;
  out.sample_sum = static_cast<double>(sum) / unit;
}

/// One scrape: a replica and, where the balancer knows it, its gauges, all asked for once.
struct Scraped {
  const ReplicaSeries* series;
  Labels labels;
  std::optional<ReplicaGauges> gauges;
};

class Gathering {
 public:
  void histograms(const std::vector<Scraped>& replicas) {
    for (const auto& series : histogram_series) {
      auto& family = begin(series.text, MetricType::Histogram);
      for (const auto& replica : replicas) {
        family.metric.push_back(labelled(replica.labels, {}));
        fill(family.metric.back().histogram, replica.series->shards(), series.unit,
             [&](const ReplicaShard& shard) -> const Histogram& { return shard.*series.histogram; });
      }
    }
    auto& family = begin(request_duration_series, MetricType::Histogram);
    for (const auto& replica : replicas) {
      for (std::size_t api = 0; api < api_names.size(); ++api) {
        for (const bool stream : {false, true}) {
          family.metric.push_back(
              labelled(replica.labels, {{"api", api_names[api]}, {"stream", stream ? "true" : "false"}}));
          fill(family.metric.back().histogram, replica.series->shards(), 1e9,
               [&](const ReplicaShard& shard) -> const Histogram& {
                 return shard.request_duration(static_cast<Api>(api), stream);
               });
        }
      }
    }
  }

  void counters(const std::vector<Scraped>& replicas) {
    for (const auto& series : counter_series) {
      auto& family = begin(series.text, MetricType::Counter);
      for (const auto& replica : replicas) {
        add(family, labelled(replica.labels, {}),
            sum_of(*replica.series, [&](const ReplicaShard& s) -> const Counter& { return s.*series.counter; }));
      }
    }
    for (const auto& series : labelled_counter_series) {
      auto& family = begin(series.text, MetricType::Counter);
      for (const auto& replica : replicas) words(family, replica, series.label, series.words, series.counters);
    }
  }

  /// What a request that reached no replica can have, too.
  void outcomes(const std::vector<Scraped>& all) {
    auto& of_requests = begin(requests_series, MetricType::Counter);
    for (const auto& one : all) requests(of_requests, one);
    auto& unparsed = begin(unparsed_series, MetricType::Counter);
    for (const auto& one : all) {
      words(unparsed, one, "reason", unparsed_names,
            [](const ReplicaShard& s) -> std::span<const Counter> { return s.unparsed; });
    }
    auto& held_against = begin(slo_requests_series, MetricType::Counter);
    for (const auto& one : all) {
      for (std::size_t i = 0; i < one.series->slos().size(); ++i) {
        words(held_against, {one.series, labelled(one.labels, {{"slo", one.series->slos()[i].name}}).label, {}},
              "result", slo_result_names,
              [i](const ReplicaShard& s) -> std::span<const Counter> { return s.slo_requests[i]; });
      }
    }
  }

  void balancer(const std::vector<Scraped>& replicas) {
    for (const auto& series : balancer_series) {
      auto& family = begin(series.text, series.is_counter ? MetricType::Counter : MetricType::Gauge);
      for (const auto& replica : replicas) {
        if (replica.gauges) add(family, labelled(replica.labels, {}), series.value(*replica.gauges));
      }
    }
    for (const auto& series : phase_series) {
      auto& family = begin(series.text, series.is_counter ? MetricType::Counter : MetricType::Gauge);
      for (const auto& replica : replicas) {
        if (!replica.gauges) continue;
        const auto values = series.values(*replica.gauges);
        for (std::size_t i = 0; i < values.size(); ++i) {
          add(family, labelled(replica.labels, {{"phase", phases_in_flight[i]}}), values[i]);
        }
      }
    }
    auto& fallbacks = begin(balancer_fallbacks_series, MetricType::Counter);
    for (const auto& replica : replicas) {
      if (!replica.gauges) continue;
      for (const auto& [reason, count] : replica.gauges->balancer_fallbacks) {
        add(fallbacks, labelled(replica.labels, {{"reason", reason}}), count);
      }
    }
    auto& about = begin(replica_info_series, MetricType::Gauge);
    for (const auto& replica : replicas) {
      if (replica.gauges) add(about, labelled(replica.labels, {{"gpu", replica.gauges->gpu}}), 1.0);
    }
    auto& kv_tokens = begin(kv_tokens_series, MetricType::Gauge);
    for (const auto& replica : replicas) {
      if (replica.gauges && replica.gauges->kv_tokens) {
        add(kv_tokens, labelled(replica.labels, {}), *replica.gauges->kv_tokens);
      }
    }
  }

  void loops(const std::vector<std::unique_ptr<LoopShard>>& shards) {
    auto& hits = begin(limit_hits_series, MetricType::Counter);
    for (std::size_t limit = 0; limit < limit_names.size(); ++limit) {
      std::uint64_t sum = 0;
      for (const auto& shard : shards) sum += shard->limit_hits[limit].value();
      add(hits, labelled({}, {{"limit", limit_names[limit]}}), sum);
    }
    auto& lag = begin(loop_lag_series, MetricType::Gauge);
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const auto nanoseconds = shards[i]->lag_nanoseconds.load(std::memory_order_relaxed);
      add(lag, labelled({}, {{"loop", std::to_string(i)}}), static_cast<double>(nanoseconds) / 1e9);
    }
    auto& delay = begin(loop_delay_series, MetricType::Histogram);
    for (std::size_t i = 0; i < shards.size(); ++i) {
      delay.metric.push_back(labelled({}, {{"loop", std::to_string(i)}}));
      fill(delay.metric.back().histogram, std::array{shards[i].get()}, 1e9,
           [](const LoopShard& shard) -> const Histogram& { return shard.loop_delay; });
    }
  }

  void process(const BuildInfo& build, std::uint64_t log_lines_dropped, std::chrono::system_clock::time_point loaded) {
    add(begin(log_lines_dropped_series, MetricType::Counter), {}, log_lines_dropped);
    add(begin(last_reload_series, MetricType::Gauge), {},
        std::chrono::duration<double>(loaded.time_since_epoch()).count());
    add(begin(build_info_series, MetricType::Gauge),
        labelled({}, {{"version", build.version}, {"compiler", build.compiler}}), 1.0);
    for (auto& family : process_families()) families_.push_back(std::move(family));
  }

  std::vector<MetricFamily> sorted() && {
    std::erase_if(families_, [](const MetricFamily& family) { return family.metric.empty(); });
    std::ranges::sort(families_, {}, &MetricFamily::name);
    return std::move(families_);
  }

 private:
  /// Valid until the next begin().
  MetricFamily& begin(const SeriesText& text, MetricType type) {
    return families_.emplace_back(MetricFamily{std::string(text.name), std::string(text.help), type, {}});
  }

  static void add(MetricFamily& family, ClientMetric metric, double value) {
    (family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
    family.metric.push_back(std::move(metric));
  }
  static void add(MetricFamily& family, ClientMetric metric, std::uint64_t value) {
    add(family, std::move(metric), static_cast<double>(value));
  }

  template <typename Pick>
  static void words(MetricFamily& family, const Scraped& replica, std::string_view label,
                    std::span<const std::string_view> all, Pick counters) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      add(family, labelled(replica.labels, {{label, all[i]}}),
          sum_of(*replica.series, [&](const ReplicaShard& s) -> const Counter& { return counters(s)[i]; }));
    }
  }

  static void requests(MetricFamily& family, const Scraped& replica) {
    for (std::size_t o = 0; o < outcome_names.size(); ++o) {
      const auto outcome = static_cast<Outcome>(o);
      if (outcome != Outcome::client_abort) {
        requests(family, replica, {{"outcome", name_of(outcome)}}, ReplicaShard::outcome_slot(outcome, Phase::queue));
        continue;
      }
      for (std::size_t p = 0; p < phase_names.size(); ++p) {
        const auto phase = static_cast<Phase>(p);
        requests(family, replica, {{"outcome", name_of(outcome)}, {"phase", name_of(phase)}},
                 ReplicaShard::outcome_slot(outcome, phase));
      }
    }
  }

  static void requests(MetricFamily& family, const Scraped& replica, OwnLabels outcome, std::size_t slot) {
    const Labels labels = labelled(replica.labels, outcome).label;
    for (std::size_t api = 0; api < api_names.size(); ++api) {
      for (const std::size_t stream : {0U, 1U}) {
        add(family, labelled(labels, {{"api", api_names[api]}, {"stream", stream ? "true" : "false"}}),
            sum_of(*replica.series,
                   [&](const ReplicaShard& s) -> const Counter& { return s.requests[slot][api][stream]; }));
      }
    }
  }

  std::vector<MetricFamily> families_;
};

}  // namespace

ReplicaSeries::ReplicaSeries(ReplicaLabels labels, std::size_t loops, const Bounds& bounds,
                             std::span<const config::Slo> slos)
    : labels_(std::move(labels)) {
  std::ranges::copy_if(slos, std::back_inserter(slos_), [&](const auto& slo) { return slo.pool == labels_.pool; });
  for (std::size_t i = 0; i < std::max<std::size_t>(loops, 1); ++i)
    shards_.push_back(std::make_unique<ReplicaShard>(bounds, slos_));
}

Exposition::Exposition(std::size_t loops, BuildInfo build, std::vector<config::Slo> slos)
    : build_(std::move(build)), slos_(std::move(slos)), bounds_(slos_) {
  for (std::size_t i = 0; i < loops; ++i) loops_.push_back(std::make_unique<LoopShard>());
  unassigned_ = &add({});
}

Exposition::~Exposition() = default;

ReplicaSeries& Exposition::add(ReplicaLabels labels) {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find_if(replicas_, [&](const auto& replica) { return replica->labels() == labels; });
  if (known != replicas_.end()) return **known;
  return *replicas_.emplace_back(std::make_unique<ReplicaSeries>(std::move(labels), loops_.size(), bounds_, slos_));
}

std::vector<MetricFamily> Exposition::Collect() const {
  std::vector<Scraped> replicas, nowhere;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& one : replicas_) {
      (one->labels().replica.empty() ? nowhere : replicas).push_back({one.get(), labels_of(one->labels()), {}});
    }
  }
  for (auto& replica : replicas) {
    if (replica.series->gauges) replica.gauges = replica.series->gauges();
  }
  std::vector<Scraped> all = nowhere;
  all.insert(all.end(), replicas.begin(), replicas.end());

  Gathering gathering;
  gathering.outcomes(all);  // First, as a request is counted last: what it brought is then counted, too.
  gathering.histograms(replicas);
  gathering.counters(replicas);
  gathering.balancer(replicas);
  gathering.loops(loops_);
  gathering.process(build_, log_lines_dropped ? log_lines_dropped() : 0, last_successful_load);
  return std::move(gathering).sorted();
}

std::string Exposition::text() const {
  std::ostringstream out;
  prometheus::TextSerializer{}.Serialize(out, Collect());
  return out.str();
}

}  // namespace weir::metrics

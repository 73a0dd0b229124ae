#include "metrics/series/exposition.hpp"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <sstream>
#include <utility>

#include "metrics/series/process_series.hpp"
#include "metrics/series/series.hpp"

namespace weir::metrics::series {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;
using OwnLabels = std::initializer_list<std::pair<std::string_view, std::string_view>>;
using CountedWord = std::pair<std::string_view, std::uint64_t>;

constexpr std::array<std::string_view, 2> phases_in_flight{"prefill", "decode"};
/// Nearly every client uses this API, so its durations stand from the start. Those of other APIs appear with their
/// first request.
constexpr Api usual_api = Api::openai_chat;

std::string_view true_or_false(bool value) { return value ? "true" : "false"; }

Labels labels_of(const ReplicaLabels& of) {
  return {{"pool", of.pool}, {"replica", of.replica}, {"config", of.config}, {"role", of.role}};
}

ClientMetric labelled(Labels labels, OwnLabels own) {
  for (const auto& [name, value] : own) labels.push_back({std::string(name), std::string(value)});
  ClientMetric metric;
  metric.label = std::move(labels);
  return metric;
}

/// Adds up what the loops wrote for one series.
template <typename Pick>
std::uint64_t sum_of(const ReplicaSeries& replica, Pick pick) {
  std::uint64_t sum = 0;
  for (const auto& shard : replica.shards()) sum += pick(*shard).value();
  return sum;
}

/// Adds up the histograms of all shards. `_count` is the sum of the exported buckets; a separate number could differ by
/// an observation.
template <typename Shards, typename Pick>
void fill(ClientMetric::Histogram& out, const Shards& shards, double unit, Pick pick) {
  const auto bounds = pick(*shards.front()).bounds();
  std::uint64_t sum = 0;
  std::vector<std::uint64_t> counts(bounds.size() + 1);
  for (const auto& shard : shards) {
    const Histogram& histogram = pick(*shard);
    // After a reload the loops take other bounds one after the other.
    for (std::size_t i = 0; i <= histogram.bounds().size(); ++i)
      counts[histogram.place(bounds, i)] += histogram.bucket(i);
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

/// A replica in one scrape: its series and, where the balancer knows the replica, its gauges, which are read once.
struct Scraped {
  const ReplicaSeries* series;
  Labels labels;
  std::optional<ReplicaGauges> gauges;
};

/// Reads the request counts of one replica once, so that the families made from them agree.
class RequestCounts {
 public:
  explicit RequestCounts(const ReplicaSeries& replica) {
    for (std::size_t slot = 0; slot < counts_.size(); ++slot) {
      for (std::size_t api = 0; api < api_names.size(); ++api) {
        for (const std::size_t stream : {0U, 1U}) {
          counts_[slot][api][stream] =
              sum_of(replica, [&](const ReplicaShard& s) -> const Counter& { return s.requests[slot][api][stream]; });
        }
      }
    }
  }

  std::uint64_t of_slot(std::size_t slot) const {
    std::uint64_t sum = 0;
    for (const auto& by_stream : counts_[slot]) sum += by_stream[0] + by_stream[1];
    return sum;
  }
  /// The count of client_abort covers all its phases.
  std::uint64_t of(Outcome outcome, std::size_t api, std::size_t stream) const {
    const auto first = ReplicaShard::outcome_slot(outcome, Phase::queue);
    const auto last = ReplicaShard::outcome_slot(outcome, Phase::decode);
    std::uint64_t sum = 0;
    for (auto slot = first; slot <= last; ++slot) sum += counts_[slot][api][stream];
    return sum;
  }

 private:
  std::array<std::array<std::array<std::uint64_t, 2>, api_names.size()>, ReplicaShard::outcome_slots> counts_{};
};

class Gathering {
 public:
  void histograms(const std::vector<Scraped>& replicas) {
    for (const auto& series : histogram_series) {
      auto& family = begin(series.text, MetricType::Histogram);
      for (const auto& replica : replicas) {
        add(family, replica, {}, series.appears, series.unit,
            [&](const ReplicaShard& shard) -> const Histogram& { return shard.*series.histogram; });
      }
    }
    auto& family = begin(request_duration_series, MetricType::Histogram);
    for (const auto& replica : replicas) {
      for (std::size_t a = 0; a < api_names.size(); ++a) {
        const auto api = static_cast<Api>(a);
        for (const bool stream : {false, true}) {
          add(family, replica, {{"api", name_of(api)}, {"stream", true_or_false(stream)}},
              api == usual_api ? Appears::from_the_start : Appears::with_first_use, 1e9,
              [&](const ReplicaShard& shard) -> const Histogram& { return shard.request_duration(api, stream); });
        }
      }
    }
  }

  void counters(const std::vector<Scraped>& replicas) {
    for (const auto& series : counter_series) {
      auto& family = begin(series.text, MetricType::Counter);
      for (const auto& replica : replicas) {
        add(family, replica.labels, {}, series.appears,
            sum_of(*replica.series, [&](const ReplicaShard& s) -> const Counter& { return s.*series.counter; }));
      }
    }
    for (const auto& series : labelled_counter_series) {
      auto& family = begin(series.text, MetricType::Counter);
      for (const auto& replica : replicas) words(family, replica, series.label, series.words, series.counters);
    }
  }

  /// Exports the outcomes, which a request that reached no replica can have, too.
  void outcomes(const std::vector<Scraped>& all, const std::vector<config::Slo>& slos) {
    std::vector<RequestCounts> counts;
    for (const auto& one : all) counts.emplace_back(*one.series);
    auto& of_requests = begin(requests_series, MetricType::Counter);
    for (std::size_t i = 0; i < all.size(); ++i) requests(of_requests, all[i], counts[i]);
    auto& by_api = begin(api_requests_series, MetricType::Counter);
    for (std::size_t i = 0; i < all.size(); ++i) api_requests(by_api, all[i], counts[i]);
    auto& unparsed = begin(unparsed_series, MetricType::Counter);
    for (const auto& one : all) {
      words(unparsed, one, "reason", unparsed_names,
            [](const ReplicaShard& s) -> std::span<const Counter> { return s.unparsed; });
    }
    auto& held_against = begin(slo_requests_series, MetricType::Counter);
    for (const auto& one : all) {
      for (const auto& slo : slos) {
        if (slo.pool != one.series->labels().pool) continue;
        words(held_against, {one.series, labelled(one.labels, {{"slo", slo.name}}).label, {}}, "result",
              record::slo_result_names, [&slo](const ReplicaShard& s) { return s.slo_results(slo.name); });
      }
    }
  }

  void balancer(const std::vector<Scraped>& replicas) {
    for (const auto& series : balancer_series) {
      auto& family = begin(series.text, series.is_counter ? MetricType::Counter : MetricType::Gauge);
      for (const auto& replica : replicas) {
        if (replica.gauges) add(family, replica.labels, {}, appears(series), series.value(*replica.gauges));
      }
    }
    for (const auto& series : phase_series) {
      auto& family = begin(series.text, series.is_counter ? MetricType::Counter : MetricType::Gauge);
      for (const auto& replica : replicas) {
        if (!replica.gauges) continue;
        const auto values = series.values(*replica.gauges);
        for (std::size_t i = 0; i < values.size(); ++i) {
          add(family, replica.labels, {{"phase", phases_in_flight[i]}}, appears(series), values[i]);
        }
      }
    }
    auto& fallbacks = begin(balancer_fallbacks_series, MetricType::Counter);
    for (const auto& replica : replicas) {
      if (replica.gauges) add_words(fallbacks, replica.labels, "reason", replica.gauges->balancer_fallbacks);
    }
    auto& states = begin(replica_state_series, MetricType::Gauge);
    for (const auto& replica : replicas) {
      if (!replica.gauges) continue;
      for (std::size_t i = 0; i < replica_state_names.size(); ++i) {
        const bool is_it = i == static_cast<std::size_t>(replica.gauges->state);
        add(states, labelled(replica.labels, {{"state", replica_state_names[i]}}), is_it ? 1.0 : 0.0);
      }
    }
    auto& about = begin(replica_info_series, MetricType::Gauge);
    for (const auto& replica : replicas) {
      if (replica.gauges) add(about, about_it(replica.labels, *replica.gauges), 1.0);
    }
    auto& kv_tokens = begin(kv_tokens_series, MetricType::Gauge);
    for (const auto& replica : replicas) {
      if (replica.gauges && replica.gauges->kv_tokens) {
        add(kv_tokens, labelled(replica.labels, {}), *replica.gauges->kv_tokens);
      }
    }
  }

  void queues(const std::vector<Scraped>& pools) {
    auto& waiting = begin(requests_waiting_series, MetricType::Gauge);
    for (const auto& pool : pools) {
      const auto& labels = pool.series->labels();
      if (pool.series->waiting)
        add(waiting, labelled({}, {{"pool", labels.pool}, {"role", labels.role}}), pool.series->waiting());
    }
  }

  void engines(const std::vector<Scraped>& replicas) {
    for (const auto& series : engine_series) {
      auto& family = begin(series.text, series.is_counter ? MetricType::Counter : MetricType::Gauge);
      for (const auto& replica : replicas) add_known(family, replica, {}, series.value);
    }
    auto& requests = begin(engine_requests_series, MetricType::Gauge);
    for (const auto& replica : replicas) {
      add_known(requests, replica, {{"state", "running"}}, &ReplicaGauges::engine_running);
      add_known(requests, replica, {{"state", "waiting"}}, &ReplicaGauges::engine_waiting);
    }
  }

  void loops(const std::vector<std::unique_ptr<LoopShard>>& shards) {
    auto& hits = begin(limit_hits_series, MetricType::Counter);
    for (std::size_t limit = 0; limit < limit_names.size(); ++limit) {
      std::uint64_t sum = 0;
      for (const auto& shard : shards) sum += shard->limit_hits[limit].value();
      add(hits, labelled({}, {{"limit", limit_names[limit]}}), sum);
    }
    auto& denied = begin(denied_series, MetricType::Counter);
    for (std::size_t why = 0; why < denied_names.size(); ++why) {
      std::uint64_t sum = 0;
      for (const auto& shard : shards) sum += shard->denied[why].value();
      add(denied, labelled({}, {{"reason", denied_names[why]}}), sum);
    }
    std::uint64_t dropped = 0;
    for (const auto& shard : shards) dropped += shard->dropped_fields.value();
    add(begin(dropped_fields_series, MetricType::Counter), {}, dropped);
    auto& handshakes = begin(tls_handshakes_series, MetricType::Counter);
    for (std::size_t side = 0; side < tls_side_names.size(); ++side) {
      for (std::size_t result = 0; result < tls_result_names.size(); ++result) {
        std::uint64_t sum = 0;
        for (const auto& shard : shards) sum += shard->tls_handshakes[side][result].value();
        add(handshakes, labelled({}, {{"side", tls_side_names[side]}, {"result", tls_result_names[result]}}), sum);
      }
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

  void comparisons(const std::vector<ComparisonGauges>& shadows) {
    auto& effects = begin(comparison_effect_series, MetricType::Gauge);
    for (const auto& one : shadows) {
      for (const auto& effect : one.effects) {
        const auto add_bound = [&](std::string_view bound, double value) {
          add(effects, labelled({}, {{"shadow", one.shadow}, {"metric", effect.metric}, {"bound", bound}}), value);
        };
        add_bound("estimate", effect.estimate);
        if (!effect.interval) continue;
        add_bound("low", effect.interval->first);
        add_bound("high", effect.interval->second);
      }
    }
    const auto add_words = [&](const SeriesText& series, std::string_view label, auto words) {
      auto& family = begin(series, MetricType::Gauge);
      for (const auto& one : shadows) {
        for (const auto& [word, is_it] : one.*words)
          add(family, labelled({}, {{"shadow", one.shadow}, {label, word}}), is_it ? 1.0 : 0.0);
      }
    };
    add_words(comparison_state_series, "state", &ComparisonGauges::states);
    add_words(comparison_same_series, "answers", &ComparisonGauges::answers);
    auto& faults = begin(comparison_faults_series, MetricType::Gauge);
    for (const auto& one : shadows) {
      for (const auto& fault : one.faults) {
        for (const auto& [only, count] : {std::pair("shadow", fault.shadow), std::pair("other", fault.other)})
          add(faults, labelled({}, {{"shadow", one.shadow}, {"fault", fault.fault}, {"only", only}}), count);
      }
    }
    auto& evidence = begin(comparison_fault_evidence_series, MetricType::Gauge);
    for (const auto& one : shadows) {
      for (const auto& fault : one.faults)
        add(evidence, labelled({}, {{"shadow", one.shadow}, {"fault", fault.fault}}), fault.evidence);
    }
  }

  void rollouts(const std::vector<RolloutGauges>& all) {
    auto& shares = begin(rollout_share_series, MetricType::Gauge);
    for (const auto& one : all) add(shares, labelled({}, {{"rollout", one.rollout}}), one.share);
    auto& states = begin(rollout_state_series, MetricType::Gauge);
    for (const auto& one : all)
      for (const auto& [state, is_it] : one.states)
        add(states, labelled({}, {{"rollout", one.rollout}, {"state", state}}), is_it ? 1.0 : 0.0);
    auto& moves = begin(rollout_moves_series, MetricType::Counter);
    for (const auto& one : all)
      for (const auto& [reason, count] : one.moves)
        add(moves, labelled({}, {{"rollout", one.rollout}, {"reason", reason}}), count);
    auto& crossed = begin(rollout_crossed_series, MetricType::Counter);
    for (const auto& one : all) add(crossed, labelled({}, {{"rollout", one.rollout}}), one.crossed);
  }

  void internal_errors(const InternalErrors& errors) {
    auto& family = begin(internal_errors_series, MetricType::Counter);
    for (std::size_t part = 0; part < part_names.size(); ++part)
      add(family, labelled({}, {{"part", part_names[part]}}), errors.counted(static_cast<Part>(part)));
  }

  void process(const BuildInfo& build, std::uint64_t log_lines_dropped, bool bypassed, const LastLoad& loaded,
               const BufferMemory& buffers) {
    add(begin(buffer_memory_series, MetricType::Gauge), {}, std::uint64_t{buffers.used});
    add(begin(buffer_memory_limit_series, MetricType::Gauge), {}, std::uint64_t{buffers.limit});
    add(begin(bypass_series, MetricType::Gauge), {}, bypassed ? 1.0 : 0.0);
    add(begin(log_lines_dropped_series, MetricType::Counter), {}, log_lines_dropped);
    add(begin(last_reload_successful_series, MetricType::Gauge), {}, loaded.successful ? 1.0 : 0.0);
    add(begin(last_reload_series, MetricType::Gauge), {},
        std::chrono::duration<double>(loaded.last_success.time_since_epoch()).count());
    add(begin(build_info_series, MetricType::Gauge),
        labelled({}, {{"version", build.version}, {"compiler", build.compiler}}), 1.0);
    for (auto& family : process_families()) families_.push_back(std::move(family));
  }

  std::vector<MetricFamily> sorted() && {
    std::ranges::sort(families_, {}, &MetricFamily::name);
    return std::move(families_);
  }

 private:
  /// Returns the new family, which is valid until the next begin().
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

  /// Adds a replica's series. A value above 0 has been used and stays on the page, because counters never fall.
  template <typename Number>
  static void add(MetricFamily& family, const Labels& labels, OwnLabels own, Appears appears, Number value) {
    if (appears == Appears::from_the_start || value != Number{}) add(family, labelled(labels, own), value);
  }

  template <typename Pick>
  static void add(MetricFamily& family, const Scraped& replica, OwnLabels own, Appears appears, double unit,
                  Pick pick) {
    auto metric = labelled(replica.labels, own);
    fill(metric.histogram, replica.series->shards(), unit, pick);
    if (appears == Appears::from_the_start || metric.histogram.sample_count != 0)
      family.metric.push_back(std::move(metric));
  }

  static Appears appears(const auto& of_balancer) {
    return of_balancer.is_counter ? Appears::with_first_use : Appears::from_the_start;
  }

  static ClientMetric about_it(const Labels& labels, const ReplicaGauges& gauges) {
    return labelled(
        labels, {{"gpu", gauges.gpu}, {"engine", gauges.engine}, {"version", gauges.version}, {"model", gauges.model}});
  }

  static void add_known(MetricFamily& family, const Scraped& replica, OwnLabels own,
                        std::optional<double> ReplicaGauges::*value) {
    if (!replica.gauges) return;
    const auto& known = (*replica.gauges).*value;
    if (known) add(family, labelled(replica.labels, own), *known);
  }

  template <typename Pick>
  static void words(MetricFamily& family, const Scraped& replica, std::string_view label,
                    std::span<const std::string_view> all, Pick counters) {
    std::vector<CountedWord> counted;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto pick = [&](const ReplicaShard& s) -> const Counter& { return counters(s)[i]; };
      counted.emplace_back(all[i], sum_of(*replica.series, pick));
    }
    add_words(family, replica.labels, label, counted);
  }

  /// Adds all words once one of them has been used.
  static void add_words(MetricFamily& family, const Labels& labels, std::string_view label,
                        std::span<const CountedWord> counted) {
    if (std::ranges::all_of(counted, [](const CountedWord& one) { return one.second == 0; })) return;
    for (const auto& [word, count] : counted) add(family, labelled(labels, {{label, word}}), count);
  }

  static void requests(MetricFamily& family, const Scraped& one, const RequestCounts& counts) {
    const auto appears = one.series->labels().replica.empty() ? Appears::with_first_use : Appears::from_the_start;
    for (std::size_t o = 0; o < outcome_names.size(); ++o) {
      const auto outcome = static_cast<Outcome>(o);
      const auto add_slot = [&](OwnLabels own, Phase phase) {
        add(family, one.labels, own, appears, counts.of_slot(ReplicaShard::outcome_slot(outcome, phase)));
      };
      if (outcome != Outcome::client_abort) {
        add_slot({{"outcome", name_of(outcome)}}, Phase::queue);
        continue;
      }
      for (std::size_t p = 0; p < phase_names.size(); ++p) {
        const auto phase = static_cast<Phase>(p);
        add_slot({{"outcome", name_of(outcome)}, {"phase", name_of(phase)}}, phase);
      }
    }
  }

  static void api_requests(MetricFamily& family, const Scraped& one, const RequestCounts& counts) {
    for (std::size_t api = 0; api < api_names.size(); ++api) {
      for (const std::size_t stream : {0U, 1U}) {
        for (std::size_t o = 0; o < outcome_names.size(); ++o) {
          add(family, one.labels,
              {{"api", api_names[api]}, {"stream", true_or_false(stream == 1)}, {"outcome", outcome_names[o]}},
              Appears::with_first_use, counts.of(static_cast<Outcome>(o), api, stream));
        }
      }
    }
  }

  std::vector<MetricFamily> families_;
};

}  // namespace

ReplicaSeries::ReplicaSeries(ReplicaLabels labels, std::size_t loops, const std::shared_ptr<const Objectives>& slos)
    : labels_(std::move(labels)) {
  for (std::size_t i = 0; i < std::max<std::size_t>(loops, 1); ++i)
    shards_.push_back(std::make_unique<ReplicaShard>(slos, labels_.pool));
}

Exposition::Exposition(std::size_t loops, BuildInfo build, std::vector<config::Slo> slos)
    : build_(std::move(build)), objectives_(std::make_shared<const Objectives>(std::move(slos))) {
  for (std::size_t i = 0; i < loops; ++i) loops_.push_back(std::make_unique<LoopShard>());
  unassigned_ = &add({});
}

Exposition::~Exposition() = default;

ReplicaSeries& Exposition::add(ReplicaLabels labels) {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find_if(replicas_, [&](const auto& replica) { return replica->labels() == labels; });
  if (known != replicas_.end()) {
    (*known)->counts_into = nullptr;
    return **known;
  }
  return *replicas_.emplace_back(std::make_shared<ReplicaSeries>(std::move(labels), loops_.size(), objectives_));
}

void Exposition::set_slos(const std::vector<config::Slo>& slos) {
  const std::lock_guard lock(mutex_);
  if (slos != objectives_->slos) objectives_ = std::make_shared<const Objectives>(slos);
}

std::shared_ptr<const Objectives> Exposition::objectives() const {
  const std::lock_guard lock(mutex_);
  return objectives_;
}

bool Exposition::follow(ReplicaSeries& series, std::size_t loop) {
  const std::unique_lock lock(following_, std::try_to_lock);
  if (lock) series.shard(loop).follow(objectives(), series.labels().pool);
  return lock.owns_lock();
}

std::vector<MetricFamily> Exposition::Collect() const {
  std::vector<Scraped> replicas, nowhere;
  {
    const std::lock_guard lock(mutex_);
    drop_unowned();
    for (const auto& one : replicas_) {
      (one->labels().replica.empty() ? nowhere : replicas).push_back({one.get(), labels_of(one->labels()), {}});
    }
  }
  for (auto& replica : replicas) {
    if (replica.series->gauges) replica.gauges = replica.series->gauges();
  }
  std::vector<Scraped> all = nowhere;
  all.insert(all.end(), replicas.begin(), replicas.end());
  const std::lock_guard none_follows(following_);

  Gathering gathering;
  gathering.outcomes(all, objectives()->slos);  // Outcomes are read first, because a request is counted last: all that
                                                // a counted request brought is then on the page, too.
  gathering.histograms(replicas);
  gathering.counters(replicas);
  gathering.balancer(replicas);
  gathering.queues(nowhere);
  gathering.engines(replicas);
  gathering.loops(loops_);
  gathering.comparisons(comparisons ? comparisons() : std::vector<ComparisonGauges>());
  gathering.rollouts(rollouts ? rollouts() : std::vector<RolloutGauges>());
  gathering.internal_errors(internal_errors);
  gathering.process(build_, log_lines_dropped ? log_lines_dropped() : 0, bypass && bypass(), last_load,
                    buffer_memory ? buffer_memory() : BufferMemory());
  return std::move(gathering).sorted();
}

static void add_requests(const ReplicaSeries& replica, Requests& requests) {
  const RequestCounts counts(replica);
  for (std::size_t slot = 0; slot < ReplicaShard::outcome_slots; ++slot) requests.all += counts.of_slot(slot);
  for (const auto outcome : {Outcome::ok, Outcome::ok_empty})
    requests.well += counts.of_slot(ReplicaShard::outcome_slot(outcome, Phase::queue));
}

void Exposition::retire(const ReplicaSeries& series) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(replicas_, &series, [](const auto& replica) { return replica.get(); });
  if (found == replicas_.end()) return;
  (*found)->gauges = nullptr;
  (*found)->waiting = nullptr;
  (*found)->counts_into = retired_;
  drop_unowned();
}

void Exposition::drop_unowned() const {
  std::erase_if(replicas_, [](const auto& one) { return one->counts_into && one.use_count() == 1; });
}

/// The last owner lets it go when its last request has been counted.
ReplicaSeries::~ReplicaSeries() {
  if (!counts_into) return;
  Requests requests;
  add_requests(*this, requests);
  counts_into->all += requests.all;
  counts_into->well += requests.well;
}

Requests Exposition::requests() const {
  const std::lock_guard lock(mutex_);
  Requests requests{retired_->all, retired_->well};
  for (const auto& replica : replicas_) add_requests(*replica, requests);
  return requests;
}

std::string Exposition::text() const {
  std::ostringstream out;
  prometheus::TextSerializer{}.Serialize(out, Collect());
  return out.str();
}

}  // namespace weir::metrics::series

#include "metrics/series/exposition.hpp"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "metrics/series/series.hpp"
#include "metrics/series/text_page.hpp"

namespace weir::metrics::series {
namespace {

using enum SeriesType;
using CountedWord = std::pair<std::string_view, std::uint64_t>;

constexpr std::array<std::string_view, 2> phases_in_flight{"prefill", "decode"};

std::string_view true_or_false(bool value) { return value ? "true" : "false"; }

/// Adds up what the loops wrote for one series.
template <typename Pick>
std::uint64_t sum_of(const ReplicaSeries& replica, Pick pick) {
  std::uint64_t sum = 0;
  for (const auto& shard : replica.shards()) sum += pick(*shard).value();
  return sum;
}

/// Adds up a histogram of the loops. The object serves many histograms, one after the other.
class HistogramSum {
 public:
  template <typename Pick>
  void read(const std::vector<std::unique_ptr<ReplicaShard>>& shards, Pick pick) {
    bounds_ = pick(*shards.front()).bounds();
    counts_.assign(bounds_.size() + 1, 0);
    sum_ = 0;
    for (const auto& shard : shards) {
      const Histogram& histogram = pick(*shard);
      // After a reload the loops take other bounds one after the other.
      const bool same = histogram.bounds().data() == bounds_.data();
      for (std::size_t i = 0; i <= histogram.bounds().size(); ++i)
        counts_[same ? i : histogram.place(bounds_, i)] += histogram.bucket(i);
      sum_ += histogram.sum();
    }
  }
  bool empty() const {
    return std::ranges::all_of(counts_, [](std::uint64_t count) { return count == 0; });
  }
  /// `_count` is the sum of the buckets; a separate number could differ by an observation.
  void write(TextPage& page, std::string_view labels, double unit) {
    page.add(labels, texts_.of(bounds_, unit), counts_, static_cast<double>(sum_) / unit);
  }

 private:
  std::span<const std::uint64_t> bounds_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t sum_ = 0;
  BoundTexts texts_;
};

/// A replica in one scrape: its series and, where the balancer knows the replica, its gauges, which are read once.
struct Scraped {
  const ReplicaSeries* series;
  std::optional<ReplicaGauges> gauges{};

  std::string_view labels() const { return series->label_text(); }
};
using Replicas = std::span<const Scraped>;

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
  explicit Gathering(std::size_t expected_bytes) : page_(expected_bytes) {}

  void histograms(Replicas replicas) {
    for (const auto& series : histogram_series) {
      page_.begin(series.text, histogram);
      for (const auto& replica : replicas)
        add(replica, {}, series.unit, [&](const ReplicaShard& s) -> const Histogram& { return s.*series.histogram; });
    }
    page_.begin(request_duration_series, histogram);
    for (const auto& replica : replicas) {
      for (std::size_t a = 0; a < api_names.size(); ++a) {
        const auto api = static_cast<Api>(a);
        for (const bool stream : {false, true}) {
          add(replica, {{"api", name_of(api)}, {"stream", true_or_false(stream)}}, 1e9,
              [&](const ReplicaShard& s) -> const Histogram& { return s.request_duration(api, stream); });
        }
      }
    }
  }

  void counters(Replicas replicas) {
    for (const auto& series : counter_series) {
      page_.begin(series.text, counter);
      for (const auto& replica : replicas) {
        add(replica, {}, series.appears,
            sum_of(*replica.series, [&](const ReplicaShard& s) -> const Counter& { return s.*series.counter; }));
      }
    }
    for (const auto& series : labelled_counter_series) {
      page_.begin(series.text, counter);
      for (const auto& replica : replicas)
        words(*replica.series, replica.labels(), series.text.labels, series.words, series.counters);
    }
  }

  /// Exports the outcomes, which a request that reached no replica can have, too.
  void outcomes(Replicas all, const std::vector<config::Slo>& slos) {
    std::vector<RequestCounts> counts;
    counts.reserve(all.size());
    for (const auto& one : all) counts.emplace_back(*one.series);
    page_.begin(requests_series, counter);
    for (std::size_t i = 0; i < all.size(); ++i) requests(all[i], counts[i]);
    page_.begin(api_requests_series, counter);
    for (std::size_t i = 0; i < all.size(); ++i) api_requests(all[i], counts[i]);
    page_.begin(unparsed_series, counter);
    for (const auto& one : all) {
      words(*one.series, one.labels(), "reason", unparsed_names,
            [](const ReplicaShard& s) -> std::span<const Counter> { return s.unparsed; });
    }
    page_.begin(slo_requests_series, counter);
    for (const auto& one : all) {
      for (const auto& slo : slos) {
        if (slo.pool != one.series->labels().pool) continue;
        words(*one.series, labels_with(one.labels(), {{"slo", slo.name}}), "result", record::slo_result_names,
              [&slo](const ReplicaShard& s) { return s.slo_results(slo.name); });
      }
    }
  }

  void balancer(Replicas replicas) {
    for (const auto& series : balancer_series) {
      page_.begin(series.text, series.is_counter ? counter : gauge);
      for (const auto& replica : replicas) {
        if (replica.gauges) add(replica, {}, appears(series), series.value(*replica.gauges));
      }
    }
    for (const auto& series : phase_series) {
      page_.begin(series.text, series.is_counter ? counter : gauge);
      for (const auto& replica : replicas) {
        if (!replica.gauges) continue;
        const auto values = series.values(*replica.gauges);
        for (std::size_t i = 0; i < values.size(); ++i)
          add(replica, {{"phase", phases_in_flight[i]}}, appears(series), values[i]);
      }
    }
    page_.begin(balancer_fallbacks_series, counter);
    for (const auto& replica : replicas) {
      if (replica.gauges) add_words(replica.labels(), "reason", replica.gauges->balancer_fallbacks);
    }
    prefixes(replicas);
    page_.begin(replica_state_series, gauge);
    for (const auto& replica : replicas) {
      if (!replica.gauges) continue;
      for (std::size_t i = 0; i < replica_state_names.size(); ++i) {
        const bool is_it = i == static_cast<std::size_t>(replica.gauges->state);
        page_.add(labels_with(replica.labels(), {{"state", replica_state_names[i]}}), std::uint64_t{is_it});
      }
    }
    page_.begin(replica_info_series, gauge);
    for (const auto& replica : replicas) {
      if (replica.gauges) page_.add(about_it(replica.labels(), *replica.gauges), std::uint64_t{1});
    }
    page_.begin(kv_tokens_series, gauge);
    for (const auto& replica : replicas) {
      if (replica.gauges && replica.gauges->kv_tokens) page_.add(replica.labels(), *replica.gauges->kv_tokens);
    }
  }

  void prefixes(Replicas replicas) {
    const auto each = [&](auto add) {
      for (const auto& replica : replicas)
        if (replica.gauges && replica.gauges->prefix) add(replica.labels(), *replica.gauges->prefix);
    };
    page_.begin(prefix_tokens_series, counter);
    each([&](const auto& labels, const PrefixGauges& prefix) { add_words(labels, "kind", prefix.tokens); });
    page_.begin(prefix_error_series, counter);
    each([&](const auto& labels, const PrefixGauges& prefix) { add_words(labels, "direction", prefix.errors); });
    page_.begin(prefix_wipes_series, counter);
    each([&](const auto& labels, const PrefixGauges& prefix) { add_words(labels, "reason", prefix.wipes); });
    page_.begin(prefix_held_series, gauge);
    each([&](const auto& labels, const PrefixGauges& prefix) { page_.add(labels, prefix.held); });
    page_.begin(prefix_capacity_series, gauge);
    each([&](const auto& labels, const PrefixGauges& prefix) { page_.add(labels, prefix.capacity); });
    page_.begin(prefix_believed_series, gauge);
    each([&](const auto& labels, const PrefixGauges& prefix) { page_.add(labels, prefix.believed); });
  }

  void queues(Replicas pools, Replicas replicas) {
    std::vector<std::pair<std::string, double>> saturations;
    page_.begin(requests_waiting_series, gauge);
    for (const auto& pool : pools) {
      if (!pool.series->waiting) continue;
      const auto& labels = pool.series->labels();
      const auto waiting = pool.series->waiting();
      auto text = labels_with("", {{"pool", labels.pool}, {"role", labels.role}});
      page_.add(text, waiting.requests);
      std::vector<const ReplicaGauges*> members;
      for (const auto& replica : replicas) {
        const auto& own = replica.series->labels();
        if (replica.gauges && own.pool == labels.pool && own.role == labels.role) members.push_back(&*replica.gauges);
      }
      if (const auto share = saturation(waiting, members)) saturations.emplace_back(std::move(text), *share);
    }
    page_.begin(pool_saturation_series, gauge);
    for (const auto& [text, share] : saturations) page_.add(text, share);
  }

  void engines(Replicas replicas) {
    for (const auto& series : engine_series) {
      page_.begin(series.text, series.is_counter ? counter : gauge);
      for (const auto& replica : replicas) add_known(replica, {}, series.value);
    }
    page_.begin(engine_requests_series, gauge);
    for (const auto& replica : replicas) {
      add_known(replica, {{"state", "running"}}, &ReplicaGauges::engine_running);
      add_known(replica, {{"state", "waiting"}}, &ReplicaGauges::engine_waiting);
    }
  }

  void all(Replicas all, Replicas pools, Replicas replicas, const std::vector<config::Slo>& slos) {
    outcomes(all, slos);  // Outcomes are read first, because a request is counted last: all that a counted request
                          // brought is then on the page, too.
    histograms(replicas);
    counters(replicas);
    balancer(replicas);
    queues(pools, replicas);
    engines(replicas);
  }

  std::string page(std::string_view rest) const { return page_.sorted(rest); }
  std::vector<Family> families() const { return page_.families(); }

 private:
  /// Adds a replica's series. A value above 0 has been used and stays on the page, because counters never fall.
  template <typename Number>
  void add(const Scraped& replica, OwnLabels own, Appears appears, Number value) {
    if (appears == Appears::from_the_start || value != Number{}) add(replica, own, value);
  }
  template <typename Number>
  void add(const Scraped& replica, OwnLabels own, Number value) {
    if (own.size() == 0) {
      page_.add(replica.labels(), value);
    } else {
      page_.add(labels_with(replica.labels(), own), value);
    }
  }

  /// Adds a replica's histogram once it has an observation: whole, so that all have the same buckets at all times.
  template <typename Pick>
  void add(const Scraped& replica, OwnLabels own, double unit, Pick pick) {
    sum_.read(replica.series->shards(), pick);
    if (!sum_.empty()) sum_.write(page_, labels_with(replica.labels(), own), unit);
  }

  static Appears appears(const auto& of_balancer) {
    return of_balancer.is_counter ? Appears::with_first_use : Appears::from_the_start;
  }

  static std::string about_it(std::string_view labels, const ReplicaGauges& gauges) {
    return labels_with(
        labels, {{"gpu", gauges.gpu}, {"engine", gauges.engine}, {"version", gauges.version}, {"model", gauges.model}});
  }

  void add_known(const Scraped& replica, OwnLabels own, std::optional<double> ReplicaGauges::*value) {
    if (!replica.gauges) return;
    const auto& known = (*replica.gauges).*value;
    if (known) add(replica, own, *known);
  }

  template <typename Pick>
  void words(const ReplicaSeries& replica, std::string_view labels, std::string_view label,
             std::span<const std::string_view> all, Pick counters) {
    counted_.clear();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto pick = [&](const ReplicaShard& s) -> const Counter& { return counters(s)[i]; };
      counted_.emplace_back(all[i], sum_of(replica, pick));
    }
    add_words(labels, label, counted_);
  }

  /// Adds all words once one of them has been used.
  void add_words(std::string_view labels, std::string_view label, std::span<const CountedWord> counted) {
    if (std::ranges::all_of(counted, [](const CountedWord& one) { return one.second == 0; })) return;
    for (const auto& [word, count] : counted) page_.add(labels_with(labels, {{label, word}}), count);
  }

  void requests(const Scraped& one, const RequestCounts& counts) {
    const auto appears = one.series->labels().replica.empty() ? Appears::with_first_use : Appears::from_the_start;
    for (std::size_t o = 0; o < outcome_names.size(); ++o) {
      const auto outcome = static_cast<Outcome>(o);
      const auto add_slot = [&](OwnLabels own, Phase phase) {
        add(one, own, appears, counts.of_slot(ReplicaShard::outcome_slot(outcome, phase)));
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

  void api_requests(const Scraped& one, const RequestCounts& counts) {
    for (std::size_t api = 0; api < api_names.size(); ++api) {
      for (const std::size_t stream : {0U, 1U}) {
        for (std::size_t o = 0; o < outcome_names.size(); ++o) {
          add(one, {{"api", api_names[api]}, {"stream", true_or_false(stream == 1)}, {"outcome", outcome_names[o]}},
              Appears::with_first_use, counts.of(static_cast<Outcome>(o), api, stream));
        }
      }
    }
  }

  TextPage page_;
  HistogramSum sum_;
  std::vector<CountedWord> counted_;
};

}  // namespace

std::optional<double> saturation(const Waiting& waiting, std::span<const ReplicaGauges* const> replicas) {
  std::uint64_t requests = waiting.requests, tokens = waiting.tokens, places = 0, kv_tokens = 0;
  bool all_have_places = true, all_have_kv_tokens = true;
  for (const auto* replica : replicas) {
    requests += replica->in_flight;
    tokens += replica->resident_tokens;
    if (replica->state != ReplicaState::up && replica->state != ReplicaState::starting) continue;
    places += replica->max_in_flight.value_or(0);
    kv_tokens += replica->kv_tokens.value_or(0);
    all_have_places = all_have_places && replica->max_in_flight;
    all_have_kv_tokens = all_have_kv_tokens && replica->kv_tokens;
  }
  std::optional<double> share;
  const auto share_of = [&share](std::uint64_t wanted, std::uint64_t bound) {
    share = std::max(share.value_or(0), static_cast<double>(wanted) / static_cast<double>(bound));
  };
  if (all_have_places && places > 0) share_of(requests, places);
  if (all_have_kv_tokens && kv_tokens > 0) share_of(tokens, kv_tokens);
  return share;
}

ReplicaSeries::ReplicaSeries(ReplicaLabels labels, std::size_t loops, const std::shared_ptr<const Objectives>& slos)
    : labels_(std::move(labels)),
      label_text_(labels_with(
          "",
          {{"pool", labels_.pool}, {"replica", labels_.replica}, {"config", labels_.config}, {"role", labels_.role}})) {
  for (std::size_t i = 0; i < std::max<std::size_t>(loops, 1); ++i)
    shards_.push_back(std::make_unique<ReplicaShard>(slos, labels_.pool));
}

Exposition::Exposition(std::size_t loops, BuildInfo build, std::vector<config::Slo> slos)
    : OwnSources(loops, std::move(build)), objectives_(std::make_shared<const Objectives>(std::move(slos))) {
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

std::string Exposition::text() const {
  std::vector<Scraped> all;
  {
    const std::lock_guard lock(mutex_);
    drop_unowned();
    for (const auto& one : replicas_) all.push_back({one.get()});
  }
  const auto is_pool = [](const Scraped& one) { return one.series->labels().replica.empty(); };
  const auto second = std::ranges::stable_partition(all, is_pool);
  const Replicas pools(all.begin(), second.begin()), replicas(second.begin(), second.end());
  for (auto& one : all) {
    if (one.series->gauges) one.gauges = one.series->gauges();
  }
  const std::lock_guard none_follows(following_);

  Gathering gathering(page_bytes_ + page_bytes_ / 8);  // A page is hardly longer than the one before.
  gathering.all(all, pools, replicas, objectives()->slos);
  auto page = gathering.page(prometheus::TextSerializer{}.Serialize(own_families(*this)));
  page_bytes_ = page.size();
  return page;
}

Exposition::Families Exposition::families() const {
  Gathering gathering(0);
  gathering.all({}, {}, {}, {});
  return {gathering.families(), families_of_weir(*this)};
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

}  // namespace weir::metrics::series

#include "proxy/live/collector.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include "config/url.hpp"
#include "proxy/live/process.hpp"
#include "proxy/live/requests.hpp"

namespace weir::proxy::live {
namespace {

namespace ms = metrics::series;
using metrics::seconds;

constexpr double nanoseconds = 1e9, thousandths = 1e3;

/// The end of the key of the first leaving replica of a name. The key of a second one ends in " (leaving 2)".
constexpr std::string_view leaving = " (leaving)";

template <class Shards, class Pick>
double sum_of(const Shards& shards, Pick pick) {
  std::uint64_t sum = 0;
  for (const auto& shard : shards) sum += pick(*shard).value();
  return static_cast<double>(sum);
}

/// Adds up a histogram of the loops into `counts`. After a reload the loops take other bounds one after the other.
template <class Shards, class Pick>
void add_histograms(const Shards& shards, Pick pick, std::vector<std::uint64_t>& counts) {
  const auto bounds = pick(*shards.front()).bounds();
  counts.resize(bounds.size() + 1, 0);
  for (const auto& shard : shards) {
    const ms::Histogram& histogram = pick(*shard);
    const bool same = histogram.bounds().data() == bounds.data();
    for (std::size_t i = 0; i <= histogram.bounds().size(); ++i)
      counts[same ? i : histogram.place(bounds, i)] += histogram.bucket(i);
  }
}

double fade_in(double memory_seconds, std::size_t passed) {
  return std::exp(-static_cast<double>(passed) / memory_seconds);
}

std::optional<double> share_of(double part, double all) {
  return all > 0 ? std::optional(std::min(1.0, part / all)) : std::nullopt;
}

std::optional<double> above_zero(double value) { return value > 0 ? std::optional(value) : std::nullopt; }

std::optional<double> scaled(std::optional<double> value, double unit) {
  return value ? std::optional(*value / unit) : std::nullopt;
}

/// Finds the row of this name, or makes one.
template <class Map>
auto& row_in(Map& map, std::string_view name) {
  const auto found = map.find(name);
  return found != map.end() ? found->second : map[std::string(name)];
}

template <class Map>
void forget_unseen(Map& map) {
  std::erase_if(map, [](const auto& one) { return !one.second.seen; });
  for (auto& [name, row] : map) row.seen = false;
}

std::uint64_t tokens_of(const std::optional<std::uint64_t>& known) { return known.value_or(0); }

/// A state, or a shadow, has its beginning as wall time once.
void note_begin(Moment& known, Wall& wall, Moment begin, const Now& now) {
  if (known == begin) return;
  known = begin;
  wall = now.time - std::chrono::duration_cast<Wall::duration>(now.at - begin);
}

/// Returns the median of the others' values; nothing if there are none.
std::optional<double> median_but(const std::vector<std::pair<const ReplicaNow*, double>>& all, const ReplicaNow& one) {
  std::vector<double> others;
  for (const auto& [replica, value] : all)
    if (replica != &one) others.push_back(value);
  if (others.empty()) return std::nullopt;
  const auto middle = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
  std::ranges::nth_element(others, middle);
  if (others.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(others.begin(), middle)) / 2;
}

/// Replicas whose values are equal are peers of each other.
auto kind_of(const ReplicaNow& one) {
  const std::string_view config = one.config == one.name ? std::string_view() : std::string_view(one.config);
  return std::tuple(std::string_view(one.pool), std::string_view(one.shadow), config, std::string_view(one.gpu),
                    one.weight);
}

}  // namespace

void compare_with_peers(std::vector<ReplicaNow>& replicas) {
  using Values = std::vector<std::pair<const ReplicaNow*, double>>;
  struct OfKind {
    Values ttft, gap;
  };
  std::map<decltype(kind_of(replicas.front())), OfKind> kinds;
  const auto is_in = [](const ReplicaNow& one) {
    return !one.leaving && (one.state == metrics::ReplicaState::up || one.state == metrics::ReplicaState::starting);
  };
  const auto knows_ttft = [](const ReplicaNow& one) { return one.recent_ttft && one.recent_ttfts >= least_ttfts; };
  // Gaps of tokens that something on the way gathers tell nothing of the engine: most are 0, beside which peers look slow.
  const auto knows_gap = [](const ReplicaNow& one) {
    return one.recent_gap && one.recent_gaps >= least_gaps && one.coalesced_60s <= most_coalesced * one.streams_60s;
  };
  for (const auto& one : replicas) {
    if (!is_in(one)) continue;
    auto& kind = kinds[kind_of(one)];
    if (knows_ttft(one)) kind.ttft.emplace_back(&one, *one.recent_ttft);
    if (knows_gap(one)) kind.gap.emplace_back(&one, *one.recent_gap);
  }
  for (auto& one : replicas) {
    if (!is_in(one)) continue;
    const auto& kind = kinds[kind_of(one)];
    const auto by = [&](const Values& values, std::optional<double> own) -> std::optional<double> {
      const auto others = median_but(values, one);
      return others && *others > 0 ? std::optional(*own / *others) : std::nullopt;
    };
    if (knows_ttft(one)) one.ttft_by_peers = by(kind.ttft, one.recent_ttft);
    if (knows_gap(one)) one.gap_by_peers = by(kind.gap, one.recent_gap);
  }
}

void Collector::Requests::end_second(std::size_t seconds) {
  for (auto* const one : {&all, &failed, &refused}) one->end_second(seconds);
}

void Collector::finished(const metrics::record::RequestRecord& record, const metrics::record::Figures& figures,
                         Moment now) {
  const auto count = [&](Requests& requests) {
    requests.all.add(1);
    if (has_failed(record.outcome)) requests.failed.add(1);
    if (record.outcome == metrics::Outcome::rejected) requests.refused.add(1);
  };
  const bool served = metrics::record::served(record);
  const auto tpot = served ? figures.tpot : std::nullopt;
  const bool was_sent = record.role == metrics::Role::primary || record.mirrored->drop_reason.empty();
  auto replica = replicas_.find(record.replica);
  if (replica == replicas_.end()) replica = replicas_.find(record.replica + std::string(leaving));
  if (replica != replicas_.end() && was_sent) {
    auto& memory = replica->second;
    count(memory.requests);
    memory.latencies.add(figures.ttft, tpot, now);
    if (figures.ttft && served) memory.streams.add(1);
  }
  if (record.role == metrics::Role::shadow) return;
  if (const auto pool = pools_.find(record.pool); pool != pools_.end()) {
    auto& memory = pool->second;
    count(memory.requests);
    memory.outcomes[static_cast<std::size_t>(record.outcome)].add(1);
    memory.latencies.add(figures.ttft, tpot, now);
  }
  if (record.key.empty()) return;
  auto key = keys_.find(record.key);
  if (key == keys_.end()) {
    if (keys_.size() >= most_counted_keys) return;
    key = keys_.try_emplace(record.key).first;
  }
  count(key->second.requests);
  key->second.tokens_in.add(static_cast<double>(tokens_of(record.answer.prompt_tokens)));
  key->second.tokens_out.add(static_cast<double>(record.answer.output_tokens.value_or(record.answer.counted_tokens)));
}

Now Collector::take(const fleet::Snapshot& snapshot, const Surroundings& around, const std::string& instance,
                    bool draws, std::size_t passed, Moment at, Wall time) {
  Now now;
  now.at = at;
  now.time = time;
  now.serial = serial_ += passed;
  static_cast<Surroundings&>(now.weir) = around;
  const auto held = exposition_.hold_bounds();
  take_weir(now, snapshot, instance, passed);
  snapshot.each_pool([&](const std::shared_ptr<const fleet::PoolRuntime>& pool) {
    take_pool(now, snapshot, *pool, draws, passed);
  });
  for (const auto& shadow : snapshot.shadows) take_shadow(now, *shadow, passed);
  compare_with_peers(now.replicas);
  for (auto& [name, memory] : keys_) {
    memory.requests.end_second(passed);
    memory.tokens_in.end_second(passed);
    memory.tokens_out.end_second(passed);
  }
  std::erase_if(keys_, [](const auto& one) { return one.second.is_quiet(); });
  const bool any_wait = std::ranges::any_of(now.pools, [](const auto& pool) { return pool.waiting > 0; });
  if (snapshot.keys && (any_wait || !waits_.empty())) {
    take_waits(*snapshot.keys, passed);
    list_keys(now, *snapshot.keys);
  }
  forget_unseen(replicas_);
  forget_unseen(pools_);
  forget_unseen(shadows_);
  return now;
}

void Collector::complete(Now& now, const fleet::Snapshot& snapshot) {
  constexpr std::chrono::seconds descriptors_every{10};
  if (!descriptors_ || now.at - descriptors_at_ >= descriptors_every) {
    descriptors_ = open_descriptors();
    descriptors_at_ = now.at;
  }
  now.weir.descriptors = descriptors_;
  for (auto& row : now.pools)
    if (const auto memory = pools_.find(row.name); memory != pools_.end())
      row.latencies = memory->second.latencies.quantiles(now.at);
  for (auto& row : now.replicas)
    if (const auto memory = replicas_.find(row.row); memory != replicas_.end())
      row.latencies = memory->second.latencies.quantiles(now.at);
  if (snapshot.keys) list_keys(now, *snapshot.keys);
}

void Collector::take_weir(Now& now, const fleet::Snapshot& snapshot, const std::string& instance,
                          std::size_t passed) {
  auto& weir = now.weir;
  weir.version = exposition_.build().version;
  weir.instance = instance;
  weir.started = started_;
  weir.uptime_seconds = seconds(now.at - began_);
  weir.threads = threads_;
  const auto used = cpu_.of(cpu_seconds());
  if (cpu_at_ != Moment{} && now.at > cpu_at_) weir.cpu = used / seconds(now.at - cpu_at_);
  cpu_at_ = now.at;
  weir.memory_bytes = live::memory_bytes();
  weir.descriptors_limit = live::descriptors_limit();
  weir.bypass_seconds.reset();
  if (!weir.bypass) {
    bypass_since_.reset();
  } else {
    bypass_since_ = bypass_since_.value_or(now.at);
    weir.bypass_seconds = seconds(now.at - *bypass_since_);
  }
  weir.other_weir_seconds = instance_name_.tick(instance, now.at);
  if (snapshot.server_tls && snapshot.server_tls->ends() != Wall::max())
    weir.certificate_ends = snapshot.server_tls->ends();
  counts_.clear();
  add_histograms(exposition_.loops(), [](const ms::LoopShard& shard) -> const auto& { return shard.loop_delay; },
                 counts_);
  loop_delay_.take(ms::loop_delay_bounds, counts_, fade_in(recent_seconds, passed));
  weir.loop_delay_p99 = scaled(loop_delay_.bound_of_quantile(0.99), nanoseconds);
  counts_.clear();
  std::set<const ms::ReplicaSeries*> added;
  snapshot.each_replica([&](const fleet::PoolRuntime& pool, const auto& replica) {
    if (pool.shadow.empty() && added.insert(replica->series.get()).second)
      add_histograms(replica->series->shards(), [](const ms::ReplicaShard& shard) -> const auto& {
        return shard.token_overhead;
      }, counts_);
  });
  counts_.resize(ms::overhead_bounds.size() + 1, 0);
  overhead_.take(ms::overhead_bounds, counts_, fade_in(Minute::seconds, passed));
  weir.overhead_p99 = scaled(overhead_.bound_of_quantile(0.99), nanoseconds);
  for (std::size_t limit = 0; limit < limits_.size(); ++limit) {
    auto& [growth, minute] = limits_[limit];
    minute.add(growth.of(sum_of(exposition_.loops(), [&](const ms::LoopShard& shard) -> const auto& {
      return shard.limit_hits[limit];
    })));
    minute.end_second(passed);
    if (minute.sum() > 0) weir.limits_60s.emplace_back(ms::limit_names[limit], minute.sum());
  }
}

void Collector::take_pool(Now& now, const fleet::Snapshot& snapshot, const fleet::PoolRuntime& pool, bool draws,
                          std::size_t passed) {
  const auto load = pool.balancer->figures().load(now.at);
  std::map<balancer::Serial, const balancer::ReplicaLoad*> loads;
  for (const auto& one : load.replicas) loads.emplace(one.key.serial, &one);
  static const balancer::ReplicaLoad none{};
  const auto load_of = [&](const fleet::Replica& replica) -> const balancer::ReplicaLoad& {
    const auto found = loads.find(replica.key.serial);
    return found == loads.end() ? none : *found->second;
  };
  const auto first_row = now.replicas.size();
  // Replicas of one name share a series, which counts in the first of their rows.
  std::set<const ms::ReplicaSeries*> counted;
  const auto take_row = [&](const fleet::Replica& replica, std::optional<Moment> leaves_since) {
    const bool counts = counted.insert(replica.series.get()).second;
    take_replica(now, pool, replica, load_of(replica), leaves_since, counts, draws, passed);
  };
  for (const auto& replica : pool.replicas) take_row(*replica, std::nullopt);
  for (const auto& one : snapshot.leaving)
    if (one.balancer == pool.balancer && !pool.has(*one.replica)) take_row(*one.replica, one.since);
  const auto rows = std::span(now.replicas).subspan(first_row);
  const auto sum = [&](double ReplicaNow::*figure) {
    double all = 0;
    for (const auto& row : rows) all += row.*figure;
    return all;
  };
  const auto requests_of_all = sum(&ReplicaNow::requests_60s);
  for (auto& row : rows) row.share = share_of(row.requests_60s, requests_of_all);
  if (!pool.shadow.empty()) return;

  auto& memory = row_in(pools_, pool.settings.name);
  memory.seen = true;
  memory.requests.end_second(passed);
  for (auto& outcome : memory.outcomes) outcome.end_second(passed);
  auto& row = now.pools.emplace_back();
  row.name = pool.settings.name;
  row.replicas = pool.replicas.size();
  for (const auto& one : rows) {
    using enum metrics::ReplicaState;
    if (!one.leaving && (one.state == up || one.state == starting)) ++row.up;
    row.queued_tokens += one.queued_prefill_tokens;
    if (one.oldest_unanswered)
      row.oldest_unanswered = std::max(row.oldest_unanswered.value_or(0), *one.oldest_unanswered);
  }
  row.in_flight = load.in_flight;
  row.max_in_flight = pool.settings.max_in_flight;
  row.max_queued_tokens = pool.settings.max_queued_tokens;
  row.waiting = load.queue.waiting;
  row.queue = pool.settings.queue.requests;
  row.waiting_tokens = load.queue.waiting_tokens;
  if (row.waiting > 0) row.oldest_waiting = load.queue.oldest_seconds;
  row.requests_per_s = memory.requests.all.per_second();
  row.failed_per_s = memory.requests.failed.per_second();
  row.refused_per_s = memory.requests.refused.per_second();
  row.requests_60s = memory.requests.all.sum();
  row.refused_60s = memory.requests.refused.sum();
  row.tokens_in_per_s = sum(&ReplicaNow::tokens_in_per_s);
  row.tokens_out_per_s = sum(&ReplicaNow::tokens_out_per_s);
  row.second_requests = memory.requests.all.last();
  row.second_failed = memory.requests.failed.last();
  row.second_tokens_out = sum(&ReplicaNow::second_tokens_out);
  row.second_tokens_in = sum(&ReplicaNow::second_tokens_in);
  for (std::size_t i = 0; i < memory.outcomes.size(); ++i)
    if (const auto count = memory.outcomes[i].sum(); count > 0)
      row.outcomes_60s.emplace_back(metrics::outcome_names[i], count);
  if (draws) row.second_ttft = memory.latencies.quantiles(now.at, std::chrono::seconds(Minute::mean_of)).ttft_p50;
  take_slo(row, memory, pool, snapshot, passed);
}

void Collector::take_slo(PoolNow& row, OfPool& memory, const fleet::PoolRuntime& pool,
                         const fleet::Snapshot& snapshot, std::size_t passed) {
  const auto& slos = snapshot.settings.slos;
  const auto slo = std::ranges::find(slos, row.name, &config::Slo::pool);
  if (slo == slos.end()) return;
  if (memory.slo != slo->name) {
    memory.slo = slo->name;
    memory.slo_counts.clear();
    memory.good = memory.bad = Minute();
  }
  const auto before = std::exchange(memory.slo_counts, {});
  const auto count = [&](const ms::ReplicaSeries& series) {
    if (memory.slo_counts.contains(&series)) return;
    double good = 0, bad = 0;
    for (const auto& shard : series.shards()) {
      const auto results = shard->slo_results(slo->name);
      if (results.size() < metrics::record::slo_result_names.size()) continue;
      good += static_cast<double>(results[static_cast<std::size_t>(metrics::record::SloResult::good)].value());
      bad += static_cast<double>(results[static_cast<std::size_t>(metrics::record::SloResult::bad)].value());
    }
    const auto known = before.find(&series);
    auto& grown = memory.slo_counts[&series];
    if (known != before.end()) grown = known->second;
    memory.good.add(grown.first.of(good));
    memory.bad.add(grown.second.of(bad));
  };
  for (const auto& replica : pool.replicas) count(*replica->series);
  for (const auto& one : snapshot.leaving)
    if (one.balancer == pool.balancer) count(*one.replica->series);
  if (pool.unassigned) count(*pool.unassigned);
  memory.good.end_second(passed);
  memory.bad.end_second(passed);
  row.slo = PoolNow::Objective{slo->name, memory.good.sum(), memory.bad.sum()};
}

std::string Collector::row_of(const fleet::Replica& replica, bool leaves) const {
  const auto& name = replica.settings.name;
  if (!leaves) return name;
  const auto first = name + std::string(leaving);
  const auto begin = first.substr(0, first.size() - 1);
  for (auto one = replicas_.lower_bound(begin); one != replicas_.end() && one->first.starts_with(begin); ++one)
    if (one->second.id == replica.state->id) return one->first;
  auto row = first;
  for (int n = 2; replicas_.contains(row); ++n) row = begin + ' ' + std::to_string(n) + ')';
  return row;
}

void Collector::take_replica(Now& now, const fleet::PoolRuntime& pool, const fleet::Replica& replica,
                             const balancer::ReplicaLoad& load, std::optional<Moment> leaves_since, bool counts,
                             bool draws, std::size_t passed) {
  const auto& settings = replica.settings;
  auto& row = now.replicas.emplace_back();
  row.name = settings.name;
  row.row = row_of(replica, leaves_since.has_value());
  row.pool = replica.pool;
  row.shadow = pool.shadow;
  row.config = settings.config;
  row.gpu = settings.gpu;
  row.url = config::to_text(settings.url);
  row.weight = settings.weight;
  row.role = pool.shadow.empty() ? metrics::Role::primary : metrics::Role::shadow;
  const auto health = pool.balancer->health().of(replica.key, now.at);
  row.leaving = leaves_since.has_value();
  row.state = row.leaving ? metrics::ReplicaState::draining : health.state;
  row.state_seconds = std::max(0.0, seconds(now.at - leaves_since.value_or(health.since)));
  row.reason = row.leaving ? "it is no longer in the settings" : health.reason;
  row.in_flight = load.in_flight;
  row.max_in_flight = settings.max_in_flight;
  row.queued_prefill_tokens = load.prefill_left;
  row.queued_decode_tokens = load.decode_left;
  row.resident_tokens = load.resident;
  row.oldest_unanswered = above_zero(load.oldest_unanswered_seconds);
  row.silent = above_zero(load.silent_seconds);
  row.speed = load.speed;
  const auto figures = replica.state->engine.get();
  if (figures.engine != fleet::Engine::unknown) row.engine = fleet::name_of(figures.engine);
  row.engine_version = figures.version;
  row.model = figures.model;
  row.kv_tokens = fleet::kv_tokens_of(settings, *replica.state);
  if (const auto* const told = figures.load_at(now.at)) {
    row.engine_running = told->running;
    row.engine_waiting = told->waiting;
    row.divergence = told->divergence;
    row.kv_usage = told->kv_usage;
  }
  row.kv_by_engine = row.kv_usage.has_value();
  if (!row.kv_usage && row.kv_tokens && *row.kv_tokens > 0)
    row.kv_usage = static_cast<double>(load.resident) / static_cast<double>(*row.kv_tokens);

  auto& memory = row_in(replicas_, row.row);
  if (memory.id != replica.state->id) {
    memory = OfReplica();
    memory.id = replica.state->id;
  }
  memory.seen = true;
  note_begin(memory.state_since, memory.state_since_wall, leaves_since.value_or(health.since), now);
  row.since = memory.state_since_wall;
  memory.requests.end_second(passed);
  const auto busy = memory.busy_seconds.of(load.busy_seconds);
  const auto whole = static_cast<double>(passed);
  row.in_prefill = memory.prefill_seconds.of(load.prefill_seconds) / whole;
  row.in_decode = memory.decode_seconds.of(load.decode_seconds) / whole;
  memory.busy.add(busy);
  memory.busy.end_second(passed);
  if (counts) take_series(row, memory, replica, passed);
  row.requests_per_s = memory.requests.all.per_second();
  row.failed_per_s = memory.requests.failed.per_second();
  row.requests_60s = memory.requests.all.sum();
  row.failed_60s = memory.requests.failed.sum();
  row.second_requests = memory.requests.all.last();
  row.second_failed = memory.requests.failed.last();
  if (memory.busy.sum() > 1) row.tokens_per_busy_s = memory.tokens_out.sum() / memory.busy.sum();
  if (!draws) return;
  const auto lately = memory.latencies.quantiles(now.at, std::chrono::seconds(Minute::mean_of));
  row.second_ttft = lately.ttft_p50;
  row.second_tpot = lately.tpot_p50;
}

void Collector::take_series(ReplicaNow& row, OfReplica& memory, const fleet::Replica& replica, std::size_t passed) {
  const auto& shards = replica.series->shards();
  const auto grown = [&](Growth& growth, auto pick) { return growth.of(sum_of(shards, pick)); };
  const auto end = [&](Minute& minute, double count) {
    minute.add(count);
    minute.end_second(passed);
    return minute.last();
  };
  using Shard = ms::ReplicaShard;
  row.second_tokens_in =
      end(memory.tokens_in, grown(memory.prompt, [](const Shard& s) -> const auto& { return s.prompt_tokens; }));
  row.second_tokens_out =
      end(memory.tokens_out, grown(memory.output, [](const Shard& s) -> const auto& { return s.output_tokens; }));
  end(memory.cached, grown(memory.cached_prompt, [](const Shard& s) -> const auto& { return s.cached_prompt_tokens; }));
  end(memory.cache_known,
      grown(memory.known_prompt, [](const Shard& s) -> const auto& { return s.prompt_tokens_cache_known; }));
  end(memory.coalesced, grown(memory.suspects, [](const Shard& s) -> const auto& { return s.itl_suspect_requests; }));
  memory.streams.end_second(passed);
  double retried = 0;
  for (std::size_t why = 0; why < metrics::retry_names.size(); ++why)
    retried += sum_of(shards, [&](const Shard& s) -> const auto& { return s.retries[why]; });
  end(memory.retries, memory.retried.of(retried));
  const auto take = [&](Recent& recent, double memory_seconds, double most, auto pick) {
    counts_.clear();
    add_histograms(shards, pick, counts_);
    recent.take(pick(*shards.front()).bounds(), counts_, fade_in(memory_seconds, passed), most);
  };
  take(memory.ttft, recent_ttft_seconds, most_ttfts,
       [](const Shard& s) -> const auto& { return s.time_to_first_token; });
  take(memory.gap, recent_seconds, most_gaps, [](const Shard& s) -> const auto& { return s.inter_chunk_latency; });
  counts_.clear();
  const auto estimates = [](const Shard& s) -> const auto& { return s.prompt_estimate_ratio; };
  add_histograms(shards, estimates, counts_);
  // Observations fade by the number that came last, not by time.
  memory.estimates.take(estimates(*shards.front()).bounds(), counts_,
                        std::exp(-memory.estimates.came() / recent_estimates));
  row.tokens_in_per_s = memory.tokens_in.per_second();
  row.tokens_out_per_s = memory.tokens_out.per_second();
  row.retries_60s = memory.retries.sum();
  row.cached_share = share_of(memory.cached.sum(), memory.cache_known.sum());
  row.streams_60s = memory.streams.sum();
  row.coalesced_60s = memory.coalesced.sum();
  row.recent_ttft = scaled(memory.ttft.quantile(0.5), nanoseconds);
  row.recent_ttfts = memory.ttft.count();
  row.recent_gap = scaled(memory.gap.quantile(0.5), nanoseconds);
  row.recent_gaps = memory.gap.count();
  row.estimate_ratio = scaled(memory.estimates.quantile(0.5), thousandths);
  row.estimates = memory.estimates.count();
}

void Collector::take_shadow(Now& now, const fleet::ShadowRuntime& shadow, std::size_t passed) {
  const auto& settings = shadow.settings;
  auto& memory = row_in(shadows_, settings.name);
  memory.seen = true;
  auto& row = now.shadows.emplace_back();
  row.name = settings.name;
  row.of = settings.of;
  row.twin = settings.twin;
  row.sample = settings.sample;
  row.control = settings.control;
  row.on = shadow.state->on.load();
  if (const auto began = shadow.state->began.load(); began != Moment::max()) {
    note_begin(memory.began, memory.began_wall, began, now);
    row.began = memory.began_wall;
  }
  row.in_flight = shadow.pool->balancer->figures().in_flight();
  row.max_in_flight = settings.max_in_flight;
  row.pairs = shadow.state->finished.load();
  for (const auto& one : now.replicas) {
    if (one.shadow != settings.name) continue;
    row.queued_tokens += one.queued_prefill_tokens;
    if (one.silent) row.silent = std::max(row.silent.value_or(0), *one.silent);
  }
  const auto& replicas = shadow.pool->replicas;
  const auto& series = replicas.empty() ? shadow.pool->unassigned : replicas.front()->series;
  if (std::exchange(memory.counted_by, series.get()) != series.get()) memory.grown = {};
  for (std::size_t i = 0; i < memory.mirrored.size(); ++i) {
    auto& minute = memory.mirrored[i];
    minute.add(memory.grown[i].of(
        sum_of(series->shards(), [&](const ms::ReplicaShard& s) -> const auto& { return s.mirrored[i]; })));
    minute.end_second(passed);
    if (i == static_cast<std::size_t>(ms::Mirrored::sent)) {
      row.sent_60s = minute.sum();
      row.second_sent = minute.last();
    } else {
      if (minute.sum() > 0) row.dropped_60s.emplace_back(ms::mirrored_names[i], minute.sum());
      row.second_dropped += minute.last();
    }
  }
}

void Collector::take_waits(const keys::ClientKeys& keys, std::size_t passed) {
  keys.each([&](const keys::ClientKey& key) {
    const auto& name = key.settings.name;
    const auto known = waits_.find(name);
    const bool some_wait = key.use->waiting.load(std::memory_order_relaxed) > 0;
    if (known == waits_.end() && !some_wait) return;
    auto& memory = known != waits_.end() ? known->second : waits_[name];
    memory.ended.add(memory.waits.of(static_cast<double>(key.use->waits.load(std::memory_order_relaxed))));
    memory.seconds.add(memory.waited.of(
        static_cast<double>(key.use->waited_nanoseconds.load(std::memory_order_relaxed)) / nanoseconds));
    memory.ended.end_second(passed);
    memory.seconds.end_second(passed);
    memory.seen = some_wait || !memory.ended.empty();
  });
  forget_unseen(waits_);
}

void Collector::list_keys(Now& now, const keys::ClientKeys& keys) const {
  std::vector<KeyNow> rows;
  keys.each([&](const keys::ClientKey& key) {
    const auto open = key.use->requests.load(std::memory_order_relaxed) + key.of_earlier_secrets();
    const auto& name = key.settings.name;
    const auto counted = keys_.find(name);
    const auto waited = waits_.find(name);
    if (open == 0 && counted == keys_.end() && waited == waits_.end()) return;
    auto& row = rows.emplace_back();
    row.name = name;
    row.open = open;
    row.max_in_flight = key.settings.max_in_flight;
    row.waiting = key.use->waiting.load(std::memory_order_relaxed);
    if (waited != waits_.end()) {
      const auto& memory = waited->second;
      row.waits = memory.ended.lately();
      if (row.waits > 0) row.wait = memory.seconds.lately() / row.waits;
    }
    if (counted == keys_.end()) return;
    const auto& memory = counted->second;
    row.requests_60s = memory.requests.all.sum();
    row.failed_60s = memory.requests.failed.sum();
    row.refused_60s = memory.requests.refused.sum();
    row.requests_per_s = memory.requests.all.per_second();
    row.tokens_in_per_s = memory.tokens_in.per_second();
    row.tokens_out_per_s = memory.tokens_out.per_second();
  });
  const auto rank = [](const KeyNow& key) { return std::tuple(key.waiting, key.open, key.requests_60s); };
  std::ranges::sort(rows, [&](const KeyNow& a, const KeyNow& b) {
    return rank(a) != rank(b) ? rank(a) > rank(b) : a.name < b.name;
  });
  now.keys_left_off = rows.size() > most_keys ? rows.size() - most_keys : 0;
  rows.resize(rows.size() - now.keys_left_off);
  now.keys = std::move(rows);
}

}  // namespace weir::proxy::live

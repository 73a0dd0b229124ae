#include "proxy/live/figures.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <tuple>
#include <utility>

#include "metrics/record/request_record.hpp"
#include "proxy/live/document.hpp"
#include "proxy/live/findings.hpp"
#include "proxy/live/seconds.hpp"

namespace weir::proxy::live {
namespace {

namespace ms = metrics::series;
using metrics::seconds;

/// Adds up the rows of the pool's replicas.
void take_rows(PoolNow& row, std::span<const ReplicaNow> replicas) {
  for (const auto& one : replicas) {
    using enum metrics::ReplicaState;
    if (!one.leaving && (one.state == up || one.state == starting)) ++row.up;
    row.queued_tokens += one.queued_prefill_tokens;
    if (one.oldest_unanswered)
      row.oldest_unanswered = std::max(row.oldest_unanswered.value_or(0), *one.oldest_unanswered);
    row.tokens_in_per_s += one.tokens_in_per_s;
    row.tokens_out_per_s += one.tokens_out_per_s;
  }
}

void take_books(PoolNow& row, const balancer::PoolLoad& load, const config::Pool& settings) {
  row.in_flight = load.in_flight;
  row.max_in_flight = settings.max_in_flight;
  row.max_queued_tokens = settings.max_queued_tokens;
  row.waiting = load.queue.waiting;
  row.queue = settings.queue.requests;
  row.waiting_tokens = load.queue.waiting_tokens;
  if (row.waiting > 0) row.oldest_waiting = load.queue.oldest_seconds;
}

/// Sets each replica's share of the requests of its pool.
void share_out(std::span<ReplicaNow> rows) {
  double all = 0;
  for (const auto& row : rows) all += row.requests_60s;
  for (auto& row : rows) row.share = share_of(row.requests_60s, all);
}

}  // namespace

Figures::OfPool::OfPool() : seconds(columns::pool_outcomes + metrics::outcome_names.size(), columns::of_pools.size()) {}
Figures::OfShadow::OfShadow()
    : seconds(columns::shadow_mirrored + ms::mirrored_names.size(), columns::of_shadows.size()) {}
Figures::OfKey::OfKey() : seconds(columns::key_count, 0) {}
Seconds Figures::weirs_seconds() { return {columns::weir_limits + ms::limit_names.size(), columns::of_weir.size()}; }

Wall Figures::Begin::note(Moment begin, const Now& now) {
  if (at != begin) {
    at = begin;
    wall = now.time - std::chrono::duration_cast<Wall::duration>(now.at - begin);
  }
  return wall;
}

void Figures::finished(const metrics::record::RequestRecord& record, const metrics::record::Figures& figures,
                       Moment now) {
  const bool was_sent = record.role == metrics::Role::primary || record.mirrored->drop_reason.empty();
  if (was_sent) finished_on_replica(record, figures, now);
  if (record.role == metrics::Role::shadow) return;
  if (const auto found = pools_.find(record.pool); found != pools_.end()) {
    auto& [seconds, slo, latencies] = found->second;
    seconds.add(columns::pool_requests);
    if (has_failed(record.outcome)) seconds.add(columns::pool_failed);
    seconds.add(columns::pool_outcomes + static_cast<std::size_t>(record.outcome));
    const auto result = slo ? metrics::record::judge(*slo, record) : std::nullopt;
    if (result) seconds.add(*result == metrics::record::SloResult::good ? columns::pool_good : columns::pool_bad);
    latencies.add(figures.ttft, metrics::record::served(record) ? figures.tpot : std::nullopt, now);
  }
  if (record.key.empty() || (!keys_.contains(record.key) && keys_.size() >= most_counted_keys)) return;
  auto& key = keys_[record.key].seconds;
  const auto& answer = record.answer;
  key.add(columns::key_requests);
  if (has_failed(record.outcome)) key.add(columns::key_failed);
  if (record.outcome == metrics::Outcome::rejected) key.add(columns::key_refused);
  key.add(columns::key_tokens_in, static_cast<double>(answer.prompt_tokens.value_or(0)));
  key.add(columns::key_tokens_out, static_cast<double>(answer.output_tokens.value_or(answer.counted_tokens)));
}

template <class Look>
void Figures::each_row(const Look& look) {
  look(weir_);
  for (auto& [name, one] : pools_) look(one.seconds);
  for (auto& [name, one] : replicas_) look(one.seconds);
  for (auto& [name, one] : shadows_) look(one.seconds);
}

Now Figures::take(const fleet::Snapshot& snapshot, const Surroundings& around, const std::string& instance,
                  std::size_t passed, Moment at, Wall time) {
  Now now;
  now.at = at;
  now.time = time;
  now.serial = serial_ += passed;
  static_cast<Surroundings&>(now.weir) = around;
  const auto held = exposition_.hold_bounds();
  each_row([&](Seconds& row) { row.step(passed); });
  for (auto& [name, one] : keys_) one.seconds.step(passed);
  take_weir(now, snapshot, instance, passed);
  snapshot.each_pool(
      [&](const std::shared_ptr<const fleet::PoolRuntime>& pool) { take_pool(now, snapshot, *pool, passed); });
  for (const auto& shadow : snapshot.shadows) take_shadow(now, *shadow);
  compare_with_peers(now.replicas);
  take_keys(now, snapshot.keys.get());
  std::erase_if(pools_, [](const auto& one) { return one.second.seconds.presence().is_gone(); });
  std::erase_if(shadows_, [](const auto& one) { return one.second.seconds.presence().is_gone(); });
  std::erase_if(replicas_, [](const auto& one) {
    const auto& [name, memory] = one;
    return memory.seconds.presence().is_gone() || (memory.leaves && !memory.seconds.presence().put);
  });
  give_places();
  return now;
}

/// Lets the rows be drawn that are there. One that is away for longest gives its place to one that is there.
void Figures::give_places() {
  std::size_t drawn = 0;
  std::vector<Seconds*> away, wanting;
  each_row([&](Seconds& row) {
    if (row.presence().wide) ++drawn;
    if (row.presence().wide != row.presence().put) (row.presence().wide ? away : wanting).push_back(&row);
  });
  std::ranges::sort(away, {}, [](const Seconds* row) { return row->presence().absent; });
  for (auto* const row : wanting) {
    if (drawn < most_drawn) {
      ++drawn;
    } else {
      if (away.empty()) return;
      away.back()->set_wide(false);
      away.pop_back();
    }
    row->set_wide(true);
  }
}

void Figures::complete(Now& now, const fleet::Snapshot& snapshot) {
  constexpr std::chrono::seconds descriptors_every{10};
  if (!descriptors_ || now.at - descriptors_at_ >= descriptors_every) {
    descriptors_ = open_descriptors();
    descriptors_at_ = now.at;
  }
  now.weir.descriptors = descriptors_;
  for (auto& row : now.pools) {
    const auto memory = pools_.find(row.name);
    if (memory == pools_.end()) continue;
    row.latencies = memory->second.latencies.quantiles(now.at);
    row.peaks.clear();
    for (const std::string_view figure : {"in_flight", "waiting", "requests_per_s", "tokens_out_per_s"})
      row.peaks.push_back({figure, memory->second.seconds.peak(*number_of(Rows::pools, figure))});
  }
  for (auto& row : now.replicas)
    if (const auto memory = replicas_.find(row.row); memory != replicas_.end())
      row.latencies = memory->second.latencies.quantiles(now.at);
  if (snapshot.keys) list_keys(now, *snapshot.keys);
}

void Figures::take_weir(Now& now, const fleet::Snapshot& snapshot, const std::string& instance, std::size_t passed) {
  auto& weir = now.weir;
  weir.version = exposition_.build().version;
  weir.instance = instance;
  weir.started = started_;
  weir.uptime_seconds = seconds(now.at - began_);
  weir.threads = threads_;
  weir.memory_bytes = live::memory_bytes();
  weir.descriptors_limit = live::descriptors_limit();
  bypass_since_ = weir.bypass ? std::optional(bypass_since_.value_or(now.at)) : std::nullopt;
  if (bypass_since_) weir.bypass_seconds = seconds(now.at - *bypass_since_);
  if (snapshot.server_tls && snapshot.server_tls->ends() != Wall::max())
    weir.certificate_ends = snapshot.server_tls->ends();
  take_delays(weir, snapshot, passed);
  weir_.put();
  if (passed > 0) {
    const auto used = cpu_seconds(), before = cpu_before_.value_or(used);
    const auto time = seconds(now.at - std::exchange(cpu_at_, now.at));
    weir_.set(columns::weir_cpu, cpu_before_ && time > 0 ? std::optional((used - before) / time) : std::nullopt);
    cpu_before_ = used;
  }
  weir.cpu = weir_.last(columns::weir_cpu);
  weir_.set(columns::weir_memory, weir.memory_bytes);
  weir_.set(columns::weir_connections, static_cast<double>(weir.connections));
  weir_.set(columns::weir_delay, weir.loop_delay_p99);
  weir_.follow(columns::weir_lost, static_cast<double>(weir.log.dropped));
  weir.log_lost_60s = weir_.sum(columns::weir_lost);
  for (std::size_t limit = 0; limit < ms::limit_names.size(); ++limit) {
    const auto column = columns::weir_limits + limit;
    weir_.follow(column, sum_of(exposition_.loops(),
                                [&](const ms::LoopShard& shard) -> const auto& { return shard.limit_hits[limit]; }));
    if (const auto hits = weir_.sum(column); hits > 0) weir.limits_60s.emplace_back(ms::limit_names[limit], hits);
  }
}

void Figures::take_delays(WeirNow& weir, const fleet::Snapshot& snapshot, std::size_t passed) {
  if (passed > 0) {
    counts_.clear();
    add_histograms(
        exposition_.loops(), [](const ms::LoopShard& shard) -> const auto& { return shard.loop_delay; }, counts_);
    loop_delay_.take(ms::loop_delay_bounds, counts_, fade_in(recent_seconds, passed));
    counts_.clear();
    std::set<const ms::ReplicaSeries*> added;
    snapshot.each_replica([&](const fleet::PoolRuntime& pool, const auto& replica) {
      if (pool.shadow.empty() && added.insert(replica->series.get()).second)
        add_histograms(
            replica->series->shards(),
            [](const ms::ReplicaShard& shard) -> const auto& { return shard.token_overhead; }, counts_);
    });
    counts_.resize(ms::overhead_bounds.size() + 1, 0);
    overhead_.take(ms::overhead_bounds, counts_, fade_in(Seconds::minute, passed));
  }
  weir.loop_delay_p99 = scaled(loop_delay_.bound_of_quantile(0.99), nanoseconds);
  weir.overhead_p99 = scaled(overhead_.bound_of_quantile(0.99), nanoseconds);
}

void Figures::take_pool(Now& now, const fleet::Snapshot& snapshot, const fleet::PoolRuntime& pool, std::size_t passed) {
  const auto load = pool.balancer->figures().load(now.at);
  const auto first_row = now.replicas.size();
  take_replicas(now, snapshot, pool, load, passed);
  const auto rows = std::span(now.replicas).subspan(first_row);
  share_out(rows);
  if (pool.shadow.empty()) take_pool_row(now, snapshot, pool, load, rows, passed);
}

void Figures::take_pool_row(Now& now, const fleet::Snapshot& snapshot, const fleet::PoolRuntime& pool,
                            const balancer::PoolLoad& load, std::span<const ReplicaNow> replicas, std::size_t passed) {
  using namespace columns;
  auto& [own, slo, latencies] = pools_[pool.settings.name];
  auto& row = now.pools.emplace_back();
  row.name = pool.settings.name;
  row.replicas = pool.replicas.size();
  take_rows(row, replicas);
  take_books(row, load, pool.settings);
  own.put();
  const auto of_replicas = [&](std::size_t column) {
    double sum = 0;
    for (const auto& one : replicas) sum += replicas_[one.row].seconds.last(column).value_or(0);
    return sum;
  };
  own.set(pool_tokens_in, of_replicas(replica_tokens_in));
  own.set(pool_tokens_out, of_replicas(replica_tokens_out));
  own.set(pool_in_flight, row.in_flight);
  own.set(pool_waiting, static_cast<double>(row.waiting));
  if (passed > 0) own.set(pool_ttft, latencies.quantiles(now.at, std::chrono::seconds(Seconds::mean_of)).ttft_p50);
  const auto refused = pool_outcomes + static_cast<std::size_t>(metrics::Outcome::rejected);
  row.requests_per_s = own.per_second(pool_requests);
  row.failed_per_s = own.per_second(pool_failed);
  row.refused_per_s = own.per_second(refused);
  row.requests_60s = own.sum(pool_requests);
  row.refused_60s = own.sum(refused);
  for (std::size_t i = 0; i < metrics::outcome_names.size(); ++i)
    if (const auto count = own.sum(pool_outcomes + i); count > 0)
      row.outcomes_60s.emplace_back(metrics::outcome_names[i], count);
  const auto& slos = snapshot.settings.slos;
  const auto found = std::ranges::find(slos, row.name, &config::Slo::pool);
  if (found == slos.end()) {
    slo.reset();
    return;
  }
  if (!slo || slo->name != found->name) {
    own.clear(pool_good);
    own.clear(pool_bad);
  }
  slo = *found;
  row.slo = PoolNow::Objective{slo->name, own.sum(pool_good), own.sum(pool_bad)};
}

void Figures::take_shadow(Now& now, const fleet::ShadowRuntime& shadow) {
  const auto& settings = shadow.settings;
  auto& memory = shadows_[settings.name];
  auto& own = memory.seconds;
  auto& row = now.shadows.emplace_back();
  row.name = settings.name;
  row.of = settings.of;
  row.twin = settings.twin;
  row.sample = settings.sample;
  row.control = settings.control;
  row.on = shadow.state->on.load();
  if (const auto began = shadow.state->began.load(); began != Moment::max()) row.began = memory.began.note(began, now);
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
  if (std::exchange(memory.counted_by, series.get()) != series.get()) own.look_anew();
  own.put();
  own.set(columns::shadow_in_flight, row.in_flight);
  double dropped = 0;
  for (std::size_t i = 0; i < ms::mirrored_names.size(); ++i) {
    const auto column = columns::shadow_mirrored + i;
    const auto mirrored = [&](const ms::ReplicaShard& s) -> const auto& { return s.mirrored[i]; };
    own.follow(column, sum_of(series->shards(), mirrored));
    const auto last = own.last(column).value_or(0), sum = own.sum(column);
    if (i == static_cast<std::size_t>(ms::Mirrored::sent)) {
      row.sent_60s = sum;
      own.set(columns::shadow_sent, last);
      continue;
    }
    if (sum > 0) row.dropped_60s.emplace_back(ms::mirrored_names[i], sum);
    dropped += last;
  }
  own.set(columns::shadow_dropped, dropped);
}

/// Keys have their rows at once while some wait; otherwise complete() lists them for a reader.
void Figures::take_keys(Now& now, const keys::ClientKeys* keys) {
  using namespace columns;
  for (auto& [name, one] : keys_) one.seconds.put();
  const bool any_wait = std::ranges::any_of(now.pools, [](const auto& pool) { return pool.waiting > 0; });
  std::set<std::string_view> waiting;
  if (keys != nullptr && (any_wait || !keys_.empty())) {
    keys->each([&](const keys::ClientKey& key) {
      const auto& name = key.settings.name;
      const bool waits = key.use->waiting.load(std::memory_order_relaxed) > 0;
      auto known = keys_.find(name);
      if (known == keys_.end() && !waits) return;
      if (known == keys_.end()) {
        known = keys_.try_emplace(name).first;
        known->second.seconds.put();
      }
      if (waits) waiting.insert(known->first);
      known->second.seconds.follow(key_waits, static_cast<double>(key.use->waits.load(std::memory_order_relaxed)));
      const auto waited = key.use->waited_nanoseconds.load(std::memory_order_relaxed);
      known->second.seconds.follow(key_waited, static_cast<double>(waited) / nanoseconds);
    });
  }
  std::erase_if(keys_, [&](const auto& one) {
    return one.second.seconds.sum(key_requests) == 0 && one.second.seconds.sum(key_waits) == 0 &&
           !waiting.contains(one.first);
  });
  if (keys != nullptr && any_wait) list_keys(now, *keys);
}

std::vector<KeyNow> Figures::rows_of(const keys::ClientKeys& keys) const {
  using namespace columns;
  std::vector<KeyNow> rows;
  keys.each([&](const keys::ClientKey& key) {
    const auto open = key.use->requests.load(std::memory_order_relaxed) + key.of_earlier_secrets();
    const auto& name = key.settings.name;
    const auto known = keys_.find(name);
    if (open == 0 && known == keys_.end()) return;
    auto& row = rows.emplace_back();
    row.name = name;
    row.open = open;
    row.max_in_flight = key.settings.max_in_flight;
    row.waiting = key.use->waiting.load(std::memory_order_relaxed);
    if (known == keys_.end()) return;
    const auto& own = known->second.seconds;
    row.waits = own.sum(key_waits, Seconds::mean_of);
    if (row.waits > 0) row.wait = own.sum(key_waited, Seconds::mean_of) / row.waits;
    row.requests_60s = own.sum(key_requests);
    row.failed_60s = own.sum(key_failed);
    row.refused_60s = own.sum(key_refused);
    row.requests_per_s = own.per_second(key_requests);
    row.tokens_in_per_s = own.per_second(key_tokens_in);
    row.tokens_out_per_s = own.per_second(key_tokens_out);
  });
  return rows;
}

/// Sets the rows of the keys that have requests, those that wait first. Costs O(keys).
void Figures::list_keys(Now& now, const keys::ClientKeys& keys) const {
  auto rows = rows_of(keys);
  const auto rank = [](const KeyNow& key) { return std::tuple(key.waiting, key.open, key.requests_60s); };
  std::ranges::sort(
      rows, [&](const KeyNow& a, const KeyNow& b) { return rank(a) != rank(b) ? rank(a) > rank(b) : a.name < b.name; });
  now.keys_left_off = rows.size() > most_keys ? rows.size() - most_keys : 0;
  rows.resize(rows.size() - now.keys_left_off);
  now.keys = std::move(rows);
}

std::span<const std::string_view> Figures::drawn(Rows rows) {
  switch (rows) {
    case Rows::weir:
      return columns::of_weir;
    case Rows::pools:
      return columns::of_pools;
    case Rows::replicas:
      return columns::of_replicas;
    case Rows::shadows:
      break;
  }
  return columns::of_shadows;
}

std::optional<std::size_t> Figures::number_of(Rows rows, std::string_view figure) {
  const auto all = drawn(rows);
  const auto found = std::ranges::find(all, figure);
  return found == all.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - all.begin()));
}

std::vector<std::string> Figures::names(Rows rows) const {
  std::vector<std::string> names;
  const auto list = [&](const auto& all) {
    for (const auto& [name, one] : all)
      if (one.seconds.presence().wide) names.push_back(name);
  };
  if (rows == Rows::weir) names.emplace_back();
  if (rows == Rows::pools) list(pools_);
  if (rows == Rows::replicas) list(replicas_);
  if (rows == Rows::shadows) list(shadows_);
  return names;
}

const Seconds* Figures::row(Rows rows, std::string_view name) const {
  const auto in = [&](const auto& all) -> const Seconds* {
    const auto found = all.find(name);
    return found != all.end() && found->second.seconds.presence().wide ? &found->second.seconds : nullptr;
  };
  if (rows == Rows::weir) return &weir_;
  return rows == Rows::pools ? in(pools_) : rows == Rows::replicas ? in(replicas_) : in(shadows_);
}

}  // namespace weir::proxy::live

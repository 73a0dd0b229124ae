#include "proxy/live/pool_figures.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

namespace weir::proxy::live {
namespace {

namespace ms = metrics::series;

/// Adds up the rows of the pool's replicas.
void take_replicas(PoolNow& row, std::span<const ReplicaNow> replicas) {
  for (const auto& one : replicas) {
    using enum metrics::ReplicaState;
    if (!one.leaving && (one.state == up || one.state == starting)) ++row.up;
    row.queued_tokens += one.queued_prefill_tokens;
    if (one.oldest_unanswered)
      row.oldest_unanswered = std::max(row.oldest_unanswered.value_or(0), *one.oldest_unanswered);
    row.tokens_in_per_s += one.tokens_in_per_s;
    row.tokens_out_per_s += one.tokens_out_per_s;
    row.second_tokens_in += one.second_tokens_in;
    row.second_tokens_out += one.second_tokens_out;
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

}  // namespace

void PoolFigures::finished(const metrics::record::RequestRecord& record, const metrics::record::Figures& figures,
                           Moment now) {
  const auto pool = memories_.find(record.pool);
  if (pool == memories_.end()) return;
  auto& memory = pool->second;
  memory.requests.add(record.outcome);
  memory.outcomes[static_cast<std::size_t>(record.outcome)].add(1);
  memory.latencies.add(figures.ttft, metrics::record::served(record) ? figures.tpot : std::nullopt, now);
}

void PoolFigures::take(Now& now, const fleet::Snapshot& snapshot, const fleet::PoolRuntime& pool,
                       const balancer::PoolLoad& load, std::span<const ReplicaNow> replicas, bool draws,
                       std::size_t passed) {
  auto& memory = memory_in(memories_, pool.settings.name);
  memory.seen = true;
  memory.requests.end_second(passed);
  for (auto& outcome : memory.outcomes) outcome.end_second(passed);
  auto& row = now.pools.emplace_back();
  row.name = pool.settings.name;
  row.replicas = pool.replicas.size();
  take_replicas(row, replicas);
  take_books(row, load, pool.settings);
  row.requests_per_s = memory.requests.all.per_second();
  row.failed_per_s = memory.requests.failed.per_second();
  row.refused_per_s = memory.requests.refused.per_second();
  row.requests_60s = memory.requests.all.sum();
  row.refused_60s = memory.requests.refused.sum();
  row.second_requests = memory.requests.all.last();
  row.second_failed = memory.requests.failed.last();
  for (std::size_t i = 0; i < memory.outcomes.size(); ++i)
    if (const auto count = memory.outcomes[i].sum(); count > 0)
      row.outcomes_60s.emplace_back(metrics::outcome_names[i], count);
  if (draws) row.second_ttft = memory.latencies.quantiles(now.at, std::chrono::seconds(Minute::mean_of)).ttft_p50;
  take_slo(row, memory, pool, snapshot, passed);
}

bool PoolFigures::OfPool::rest(std::size_t seconds) {
  slo_counts.clear();  // The series may go, and others may have their addresses.
  requests.end_second(seconds);
  for (auto& outcome : outcomes) outcome.end_second(seconds);
  for (auto* const one : {&good, &bad}) one->end_second(seconds);
  return !requests.all.empty() || !good.empty() || !bad.empty();
}

void PoolFigures::take_slo(PoolNow& row, OfPool& memory, const fleet::PoolRuntime& pool,
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

void PoolFigures::complete(Now& now) const {
  for (auto& row : now.pools)
    if (const auto memory = memories_.find(row.name); memory != memories_.end())
      row.latencies = memory->second.latencies.quantiles(now.at);
}

}  // namespace weir::proxy::live

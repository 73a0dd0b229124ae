#include "proxy/live/replica_figures.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string_view>

#include "config/url.hpp"
#include "proxy/live/shard_sums.hpp"

namespace weir::proxy::live {
namespace {

namespace ms = metrics::series;
using metrics::seconds;
using Shard = ms::ReplicaShard;

constexpr double thousandths = 1e3;

/// The end of the key of the first leaving replica of a name. The key of a second one ends in " (leaving 2)".
constexpr std::string_view leaving = " (leaving)";

std::optional<double> above_zero(double value) { return value > 0 ? std::optional(value) : std::nullopt; }

void describe(ReplicaNow& row, const fleet::PoolRuntime& pool, const fleet::Replica& replica) {
  const auto& settings = replica.settings;
  row.name = settings.name;
  row.pool = replica.pool;
  row.shadow = pool.shadow;
  row.config = settings.config;
  row.gpu = settings.gpu;
  row.url = config::to_text(settings.url);
  row.weight = settings.weight;
  row.max_in_flight = settings.max_in_flight;
  row.role = pool.shadow.empty() ? metrics::Role::primary : metrics::Role::shadow;
}

void take_health(ReplicaNow& row, const balancer::ReplicaHealth& health, std::optional<Moment> leaves_since,
                 Moment now) {
  row.leaving = leaves_since.has_value();
  row.state = row.leaving ? metrics::ReplicaState::draining : health.state;
  row.state_seconds = std::max(0.0, seconds(now - leaves_since.value_or(health.since)));
  row.reason = row.leaving ? "it is no longer in the settings" : health.reason;
  row.asleep = !row.leaving && health.asleep;
}

/// Returns why the latest request was sent to a busy replica.
std::string sentence_of(const balancer::PassedOver& passed, const std::string& chosen) {
  const auto text = [](double time) {
    return time < 1 ? std::to_string(std::lround(1e3 * time)) + " ms" : std::to_string(std::lround(time)) + " s";
  };
  std::string said = "the latest request went to " + chosen + ", where its first token was expected after " +
                     text(passed.first_token_there) + ", here after " + text(passed.first_token);
  if (passed.waste > 0.001)
    said += "; more of its prompt was in " + chosen + "'s cache, or room for it, which is worth " + text(passed.waste);
  if (passed.weighs_less) said += "; its weight is below that of " + chosen;
  return said;
}

void take_books(ReplicaNow& row, const balancer::ReplicaLoad& load) {
  row.in_flight = load.in_flight;
  row.queued_prefill_tokens = load.prefill_left;
  row.queued_decode_tokens = load.decode_left;
  row.resident_tokens = load.resident;
  row.oldest_unanswered = above_zero(load.oldest_unanswered_seconds);
  row.silent = above_zero(load.silent_seconds);
  if (load.passed_over) row.idle = sentence_of(*load.passed_over, load.passed_over_for);
  row.usual_ttft = load.time.first_steps * load.time.step + 1000 * load.time.token;
}

/// Sets what the engine's own pages say. Where they do not tell the use of the KV cache, weir's books do.
void take_engine(ReplicaNow& row, const fleet::Replica& replica, Moment now) {
  const auto figures = replica.state->engine.get();
  if (figures.engine != fleet::Engine::unknown) row.engine = fleet::name_of(figures.engine);
  row.engine_version = figures.version;
  row.model = figures.model;
  row.kv_tokens = fleet::kv_tokens_of(replica.settings, *replica.state);
  if (const auto* const told = figures.load_at(now)) {
    row.engine_running = told->running;
    row.engine_waiting = told->waiting;
    row.divergence = told->divergence;
    row.kv_usage = told->kv_usage;
  }
  row.kv_by_engine = row.kv_usage.has_value();
  if (!row.kv_usage && row.kv_tokens && *row.kv_tokens > 0)
    row.kv_usage = static_cast<double>(row.resident_tokens) / static_cast<double>(*row.kv_tokens);
}

}  // namespace

void ReplicaFigures::finished(const metrics::record::RequestRecord& record, const metrics::record::Figures& figures,
                              Moment now) {
  auto replica = memories_.find(record.replica);
  if (replica == memories_.end()) replica = memories_.find(record.replica + std::string(leaving));
  if (replica == memories_.end()) return;
  const bool served = metrics::record::served(record);
  auto& memory = replica->second;
  memory.requests.add(record.outcome);
  memory.latencies.add(figures.ttft, served ? figures.tpot : std::nullopt, now);
  if (figures.ttft && served) memory.streams.add(1);
}

std::string ReplicaFigures::row_of(const fleet::Replica& replica, bool leaves) const {
  const auto& name = replica.settings.name;
  if (!leaves) return name;
  const auto first = name + std::string(leaving);
  const auto begin = first.substr(0, first.size() - 1);
  for (auto one = memories_.lower_bound(begin); one != memories_.end() && one->first.starts_with(begin); ++one)
    if (one->second.id == replica.state->id) return one->first;
  auto row = first;
  for (int n = 2; memories_.contains(row); ++n) row = begin + ' ' + std::to_string(n) + ')';
  return row;
}

ReplicaFigures::OfReplica& ReplicaFigures::memory_of(const std::string& row, const fleet::Replica& replica) {
  auto& memory = memory_in(memories_, row);
  if (memory.id != replica.state->id) {
    memory = OfReplica();
    memory.id = replica.state->id;
  }
  memory.seen = true;
  return memory;
}

void ReplicaFigures::take(Now& now, const Place& place, bool draws, std::size_t passed) {
  auto& row = now.replicas.emplace_back();
  row.row = row_of(place.replica, place.leaves_since.has_value());
  describe(row, place.pool, place.replica);
  const auto health = place.pool.balancer->health().of(place.replica.key, now.at);
  take_health(row, health, place.leaves_since, now.at);
  take_books(row, place.load);
  take_engine(row, place.replica, now.at);

  auto& memory = memory_of(row.row, place.replica);
  note_begin(memory.state_since, memory.state_since_wall, place.leaves_since.value_or(health.since), now);
  row.since = memory.state_since_wall;
  take_load(row, memory, place.load, passed);
  if (place.counts) {
    take_counters(memory, place.replica, passed);
    take_histograms(memory, place.replica, passed);
    set_series(row, memory);
  }
  if (memory.busy.sum() > 1) row.tokens_per_busy_s = memory.tokens_out.sum() / memory.busy.sum();
  if (!draws) return;
  const auto lately = memory.latencies.quantiles(now.at, std::chrono::seconds(Minute::mean_of));
  row.second_ttft = lately.ttft_p50;
  row.second_tpot = lately.tpot_p50;
}

void ReplicaFigures::take_load(ReplicaNow& row, OfReplica& memory, const balancer::ReplicaLoad& load,
                               std::size_t passed) {
  memory.requests.end_second(passed);
  const auto busy = memory.busy_seconds.of(load.busy_seconds);
  const auto whole = static_cast<double>(passed);
  row.in_prefill = memory.prefill_seconds.of(load.prefill_seconds) / whole;
  row.in_decode = memory.decode_seconds.of(load.decode_seconds) / whole;
  memory.busy.add(busy);
  memory.busy.end_second(passed);
  row.requests_per_s = memory.requests.all.per_second();
  row.failed_per_s = memory.requests.failed.per_second();
  row.requests_60s = memory.requests.all.sum();
  row.failed_60s = memory.requests.failed.sum();
  row.empty_60s = memory.requests.empty.sum();
  row.second_requests = memory.requests.all.last();
  row.second_failed = memory.requests.failed.last();
}

/// Adds what the counters of the loops have grown by.
void ReplicaFigures::take_counters(OfReplica& memory, const fleet::Replica& replica, std::size_t passed) {
  const auto& shards = replica.series->shards();
  const auto grown = [&](Growth& growth, auto pick) { return growth.of(sum_of(shards, pick)); };
  const auto end = [&](Minute& minute, double count) {
    minute.add(count);
    minute.end_second(passed);
  };
  end(memory.tokens_in, grown(memory.prompt, [](const Shard& s) -> const auto& { return s.prompt_tokens; }));
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
}

void ReplicaFigures::take_histograms(OfReplica& memory, const fleet::Replica& replica, std::size_t passed) {
  const auto& shards = replica.series->shards();
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
  counts_.clear();
  const auto predictions = [](const Shard& s) -> const auto& { return s.ttft_measured_by_predicted; };
  add_histograms(shards, predictions, counts_);
  memory.predictions.take(predictions(*shards.front()).bounds(), counts_,
                          std::exp(-memory.predictions.came() / recent_estimates));
}

void ReplicaFigures::set_series(ReplicaNow& row, const OfReplica& memory) {
  row.second_tokens_in = memory.tokens_in.last();
  row.second_tokens_out = memory.tokens_out.last();
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
  // Half of the predictions are between the quartiles, so half of them are no worse than the worse one.
  const auto low = scaled(memory.predictions.quantile(0.25), thousandths);
  const auto high = scaled(memory.predictions.quantile(0.75), thousandths);
  if (low && high) row.prediction_error = std::max(std::abs(*low - 1), std::abs(*high - 1));
}

void ReplicaFigures::complete(Now& now) const {
  for (auto& row : now.replicas)
    if (const auto memory = memories_.find(row.row); memory != memories_.end())
      row.latencies = memory->second.latencies.quantiles(now.at);
}

}  // namespace weir::proxy::live

#include "proxy/live/figures.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "config/address.hpp"
#include "proxy/live/document.hpp"
#include "proxy/live/seconds.hpp"

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
  if (const auto address = replica.state->address.get()) row.address = address->to_text();
  row.injection_disabled = replica.state->usage.is_refused();
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

void take_books_of(ReplicaNow& row, const balancer::ReplicaLoad& load) {
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
  row.max_context = figures.max_context;
  row.kv_tokens = fleet::kv_tokens_of(replica.settings, *replica.state);
  if (const auto* const told = figures.load_at(now)) {
    row.prefix_queries = told->prefix_queries;
    row.prefix_hits = told->prefix_hits;
    row.engine_running = told->running;
    row.engine_waiting = told->waiting;
    row.divergence = told->divergence;
    row.kv_usage = told->kv_usage;
  }
  row.kv_by_engine = row.kv_usage.has_value();
  if (!row.kv_usage && row.kv_tokens && *row.kv_tokens > 0)
    row.kv_usage = static_cast<double>(row.resident_tokens) / static_cast<double>(*row.kv_tokens);
}

/// Adds what the counters of the loops have grown by.
void follow_counters(Seconds& own, const auto& shards) {
  using namespace columns;
  const auto follow = [&](std::size_t column, auto pick) { own.follow(column, sum_of(shards, pick)); };
  follow(replica_tokens_in, [](const Shard& s) -> const auto& { return s.prompt_tokens; });
  follow(replica_tokens_out, [](const Shard& s) -> const auto& { return s.output_tokens; });
  follow(replica_cached, [](const Shard& s) -> const auto& { return s.cached_prompt_tokens; });
  follow(replica_cache_known, [](const Shard& s) -> const auto& { return s.prompt_tokens_cache_known; });
  follow(replica_coalesced, [](const Shard& s) -> const auto& { return s.itl_suspect_requests; });
  double retried = 0;
  for (std::size_t why = 0; why < metrics::retry_names.size(); ++why)
    retried += sum_of(shards, [&](const Shard& s) -> const auto& { return s.retries[why]; });
  own.follow(replica_retries, retried);
}

void set_counts(ReplicaNow& row, const Seconds& own) {
  using namespace columns;
  row.tokens_in_per_s = own.per_second(replica_tokens_in);
  row.tokens_out_per_s = own.per_second(replica_tokens_out);
  row.retries_60s = own.sum(replica_retries);
  row.cached_share = share_of(own.sum(replica_cached), own.sum(replica_cache_known));
  row.streams_60s = own.sum(replica_streams);
  row.coalesced_60s = own.sum(replica_coalesced);
}

void set_recent(ReplicaNow& row, const Recent& ttft, const Recent& gap, const Recent& estimates,
                const Recent& predictions) {
  row.recent_ttft = scaled(ttft.quantile(0.5), nanoseconds);
  row.recent_ttfts = ttft.count();
  row.recent_gap = scaled(gap.quantile(0.5), nanoseconds);
  row.recent_gaps = gap.count();
  row.estimate_ratio = scaled(estimates.quantile(0.5), thousandths);
  row.estimates = estimates.count();
  // Half of the predictions are between the quartiles, so half of them are no worse than the worse one.
  const auto low = scaled(predictions.quantile(0.25), thousandths);
  const auto high = scaled(predictions.quantile(0.75), thousandths);
  if (low && high) row.prediction_error = std::max(std::abs(*low - 1), std::abs(*high - 1));
}

}  // namespace

Figures::OfReplica::OfReplica() : seconds(columns::replica_count, columns::of_replicas.size()) {}

void Figures::finished_on_replica(const metrics::record::RequestRecord& record, const metrics::record::Figures& figures,
                                  Moment now) {
  auto replica = replicas_.find(record.replica);
  if (replica == replicas_.end() || !replica->second.seconds.presence().put)
    replica = replicas_.find(record.replica + std::string(leaving));
  if (replica == replicas_.end()) return;
  const bool served = metrics::record::served(record);
  auto& memory = replica->second;
  memory.seconds.add(columns::replica_requests);
  if (has_failed(record.outcome)) memory.seconds.add(columns::replica_failed);
  if (record.outcome == metrics::Outcome::ok_empty) memory.seconds.add(columns::replica_empty);
  if (figures.ttft && served) memory.seconds.add(columns::replica_streams);
  memory.latencies.add(figures.ttft, served ? figures.tpot : std::nullopt, now);
}

void Figures::take_replicas(Now& now, const fleet::Snapshot& snapshot, const fleet::PoolRuntime& pool,
                            const balancer::PoolLoad& load, std::size_t passed) {
  std::map<balancer::Serial, const balancer::ReplicaLoad*> loads;
  for (const auto& one : load.replicas) loads.emplace(one.key.serial, &one);
  static const balancer::ReplicaLoad none{};
  std::set<const ms::ReplicaSeries*> counted;
  const auto take_row = [&](const fleet::Replica& replica, std::optional<Moment> leaves_since) {
    const auto found = loads.find(replica.key.serial);
    const bool counts = counted.insert(replica.series.get()).second;
    take_replica(now, {pool, replica, found == loads.end() ? none : *found->second, leaves_since, counts}, passed);
  };
  for (const auto& replica : pool.replicas) take_row(*replica, std::nullopt);
  for (const auto& one : snapshot.leaving)
    if (one.balancer == pool.balancer && !pool.has(*one.replica)) take_row(*one.replica, one.since);
}

/// Returns the key of a replica's row.
std::string Figures::row_of(const fleet::Replica& replica, bool leaves) const {
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

void Figures::take_replica(Now& now, const Place& place, std::size_t passed) {
  using namespace columns;
  const auto& [pool, replica, load, leaves_since, counts] = place;
  auto& row = now.replicas.emplace_back();
  row.row = row_of(replica, leaves_since.has_value());
  describe(row, pool, replica);
  const auto health = pool.balancer->health().of(replica.key, now.at);
  take_health(row, health, leaves_since, now.at);
  take_books_of(row, load);
  take_engine(row, replica, now.at);

  auto& memory = replicas_[row.row];
  auto& own = memory.seconds;
  if (std::exchange(memory.id, replica.state->id) != replica.state->id) {
    own.begin_anew();
    memory.latencies = {};
    memory.ttft = memory.gap = memory.estimates = memory.predictions = {};
  }
  memory.leaves = row.leaving;
  row.since = memory.state.note(leaves_since.value_or(health.since), now);
  own.put();
  own.follow(replica_busy, load.busy_seconds);
  own.set(replica_queued, static_cast<double>(row.queued_prefill_tokens));
  own.set(replica_kv, row.kv_usage);
  if (passed > 0) {
    own.follow(replica_in_prefill, load.prefill_seconds, static_cast<double>(passed));
    own.follow(replica_in_decode, load.decode_seconds, static_cast<double>(passed));
    const auto lately = memory.latencies.quantiles(now.at, std::chrono::seconds(Seconds::mean_of));
    own.set(replica_ttft, lately.ttft_p50);
    own.set(replica_tpot, lately.tpot_p50);
  }
  if (counts) {
    follow_counters(own, replica.series->shards());
    if (passed > 0) take_histograms(memory, replica, passed);
    set_counts(row, own);
    set_recent(row, memory.ttft, memory.gap, memory.estimates, memory.predictions);
  }
  row.in_prefill = own.last(replica_in_prefill);
  row.in_decode = own.last(replica_in_decode);
  row.requests_per_s = own.per_second(replica_requests);
  row.failed_per_s = own.per_second(replica_failed);
  row.requests_60s = own.sum(replica_requests);
  row.failed_60s = own.sum(replica_failed);
  row.empty_60s = own.sum(replica_empty);
  if (const auto busy = own.sum(replica_busy); busy > 1) row.tokens_per_busy_s = own.sum(replica_tokens_out) / busy;
}

void Figures::take_histograms(OfReplica& memory, const fleet::Replica& replica, std::size_t passed) {
  const auto& shards = replica.series->shards();
  const auto take = [&](Recent& recent, double fade, double most, auto pick) {
    counts_.clear();
    add_histograms(shards, pick, counts_);
    recent.take(pick(*shards.front()).bounds(), counts_, fade, most);
  };
  take(memory.ttft, fade_in(recent_ttft_seconds, passed), most_ttfts,
       [](const Shard& s) -> const auto& { return s.time_to_first_token; });
  take(memory.gap, fade_in(recent_seconds, passed), most_gaps,
       [](const Shard& s) -> const auto& { return s.inter_chunk_latency; });
  // These observations fade by the number that came last, not by time.
  constexpr auto all = std::numeric_limits<double>::infinity();
  take(memory.estimates, std::exp(-memory.estimates.came() / recent_estimates), all,
       [](const Shard& s) -> const auto& { return s.prompt_estimate_ratio; });
  take(memory.predictions, std::exp(-memory.predictions.came() / recent_estimates), all,
       [](const Shard& s) -> const auto& { return s.ttft_measured_by_predicted; });
}

double cpu_seconds() {
  std::timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

std::optional<double> memory_bytes() {
  std::ifstream file("/proc/self/statm");
  double all = 0, resident = 0;
  if (!(file >> all >> resident)) return std::nullopt;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

std::optional<double> open_descriptors() {
  std::error_code error;
  const std::filesystem::directory_iterator entries("/proc/self/fd", error);
  if (error) return std::nullopt;
  return static_cast<double>(std::distance(begin(entries), end(entries)) - 1);  // One lists them.
}

std::optional<double> descriptors_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  return static_cast<double>(limit.rlim_cur);
}

}  // namespace weir::proxy::live

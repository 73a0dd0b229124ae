#include "metrics/series/shard.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace weir::metrics::series {
namespace {

std::optional<std::uint64_t> believable(std::optional<std::uint64_t> tokens) {
  return tokens && *tokens <= most_tokens ? tokens : std::nullopt;
}

std::uint64_t to_nanoseconds(double seconds) { return static_cast<std::uint64_t>(std::llround(seconds * 1e9)); }

/// Returns the thousandths of a ratio, rounded up as a ratio of counts is.
std::uint64_t in_thousandths(double ratio) {
  constexpr double most = 1e9;
  return static_cast<std::uint64_t>(std::ceil(1000 * std::min(ratio, most)));
}

/// Returns thousandths of a token per second. The cap keeps a burst of nanoseconds from wrapping the sum.
std::uint64_t millitokens(double tokens_per_second) {
  return static_cast<std::uint64_t>(std::llround(std::min(tokens_per_second, 1e9) * 1e3));
}

/// A stream with fewer token events does not show how its events come.
constexpr std::uint32_t fewest_events_to_suspect = 8;

}  // namespace

ReplicaShard::ReplicaShard(std::shared_ptr<const Objectives> objectives, const std::string& pool)
    : objectives_(std::move(objectives)) {
  while (durations_.size() < api_names.size() * 2) durations_.emplace_back(objectives_->bounds.duration);
  count_slos(pool);
}

void ReplicaShard::follow(const std::shared_ptr<const Objectives>& objectives, const std::string& pool) {
  if (objectives == objectives_) return;
  const auto before = std::exchange(objectives_, objectives);  // The histograms hold its bounds until they have others.
  take_bounds();
  count_slos(pool);
}

void ReplicaShard::take_bounds() {
  const auto& bounds = objectives_->bounds;
  for (auto* histogram : {&time_to_first_token, &client_time_to_first_token, &queue_duration})
    histogram->rebound(bounds.latency);
  for (auto* histogram : {&inter_token_latency, &inter_chunk_latency, &time_per_output_token})
    histogram->rebound(bounds.per_token);
  for (auto& histogram : durations_) histogram.rebound(bounds.duration);
}

void ReplicaShard::count_slos(const std::string& pool) {
  auto before = std::exchange(slo_requests, {});
  for (const auto& slo : objectives_->slos) {
    if (slo.pool != pool) continue;
    const auto known = std::ranges::find_if(before, [&](const auto& one) { return one && one->slo.name == slo.name; });
    auto counts = known != before.end() ? std::move(*known) : std::make_unique<SloCounts>();
    counts->slo = slo;
    slo_requests.push_back(std::move(counts));
  }
}

std::span<const Counter> ReplicaShard::slo_results(std::string_view name) const {
  static const SloCounts none;
  for (const auto& one : slo_requests)
    if (one->slo.name == name) return one->results;
  return none.results;
}

std::size_t ReplicaShard::outcome_slot(Outcome outcome, Phase phase) {
  const auto index = static_cast<std::size_t>(outcome);
  if (outcome < Outcome::client_abort) return index;
  if (outcome == Outcome::client_abort) return index + static_cast<std::size_t>(phase);
  return index + 2;
}

void ReplicaShard::settle(const record::RequestRecord& record) {
  const bool whole = record::served(record);
  settle_tokens(record);
  if (whole) settle_served(record);
  settle_gaps(record, whole);
  settle_reads(record);
  settle_slos(record);

  const bool could_tell = whole && generates(record.facts.api);
  if (could_tell || record.answer.token_source != TokenSource::none)
    requests_by_token_source.add(record.answer.token_source);
  const auto slot = outcome_slot(record.outcome, record.phase.value_or(Phase::queue));
  requests[slot][static_cast<std::size_t>(record.facts.api)][record.facts.stream ? 1 : 0].add();
}

/// Tokens count whatever the outcome, because the GPU made them.
void ReplicaShard::settle_tokens(const record::RequestRecord& record) {
  const record::Answer& answer = record.answer;
  const auto prompt = believable(answer.prompt_tokens);
  if (prompt) prompt_tokens.add(*prompt);
  if (const auto cached = believable(answer.cached_tokens); prompt && cached) {
    cached_prompt_tokens.add(*cached);
    prompt_tokens_cache_known.add(*prompt);
  }

  const std::uint64_t counted = answer.counted_tokens;
  const std::uint64_t n = believable(answer.output_tokens).value_or(counted);
  if (n >= counted) {
    output_tokens.add(n - counted);
  } else {
    output_tokens_overcounted.add(counted - n);
  }
  if (const auto reasoning = believable(answer.reasoning_tokens)) reasoning_tokens.add(*reasoning);
  if (record.outcome == Outcome::client_abort) aborted_output_tokens.add(n);
}

void ReplicaShard::settle_served(const record::RequestRecord& record) {
  const record::Figures figures = record::figures_of(record);
  if (figures.queue) queue_duration.observe(to_nanoseconds(*figures.queue));
  if (figures.ttft && record.predicted_ttft && *record.predicted_ttft > 0)
    ttft_measured_by_predicted.observe(in_thousandths(*figures.ttft / *record.predicted_ttft));
  if (figures.e2e) request_duration(record.facts.api, record.facts.stream).observe(to_nanoseconds(*figures.e2e));
  const auto decoded = [this](double tpot, double speed) {
    time_per_output_token.observe(to_nanoseconds(tpot));
    request_output_tokens_per_second.observe(millitokens(speed));
  };
  if (figures.tpot) decoded(*figures.tpot, *figures.decode_speed);
  for (const record::ChoiceTimes& choice : record.answer.choices) {
    if (const auto decode = record::decode_of(choice)) decoded(decode->tpot, decode->speed);
  }

  if (const auto n = believable(record.answer.output_tokens)) request_output_tokens.observe(*n);
  const auto prompt = believable(record.answer.prompt_tokens);
  if (!prompt) return;
  request_prompt_tokens.observe(*prompt);
  if (const auto estimate = believable(record.prompt_tokens_estimate); estimate && *prompt > 0) {
    // The ratio is rounded up. It then exceeds a bound exactly when the true quotient does, so the bucket counts are
    // exact.
    prompt_estimate_ratio.observe((*estimate * 1000 + *prompt - 1) / *prompt);
  }
}

/// Gaps whose tokens were known on the wire are already in inter_token_latency.
void ReplicaShard::settle_gaps(const record::RequestRecord& record, bool whole) {
  const record::Answer& answer = record.answer;
  if (!record.facts.stream || answer.gaps.bins().empty() || answer.tokens_per_event == TokensPerEvent::wire) return;
  if (!whole || answer.tokens_per_event != TokensPerEvent::settled) {
    itl_unknown_requests.add();
    return;
  }
  // The sum is exact and added once; the buckets come from the middles of the bins.
  std::uint64_t sum = answer.gaps.nanoseconds();
  for (const auto& bin : answer.gaps.bins()) {
    const auto middle = static_cast<std::uint64_t>(record::GapSketch::middle_of(bin.index).count());
    inter_token_latency.observe_about(middle, bin.count, std::exchange(sum, 0));
  }
}

/// Tokens are made one after the other, so token events of one choice that arrive together have waited for one another.
void ReplicaShard::settle_reads(const record::RequestRecord& record) {
  const record::Answer& answer = record.answer;
  token_reads.add(answer.token_reads);
  coalesced_token_reads.add(answer.coalesced_reads);
  if (record.facts.stream && answer.token_events >= fewest_events_to_suspect &&
      answer.coalesced_token_events > answer.token_events / 2)
    itl_suspect_requests.add();
}

void ReplicaShard::settle_slos(const record::RequestRecord& record) {
  for (const auto& counts : slo_requests) {
    if (const auto result = record::judge(counts->slo, record)) counts->results.add(*result);
  }
}

namespace {

constexpr std::uint64_t us = 1'000;
constexpr std::uint64_t ms = 1'000'000;
constexpr std::uint64_t second = 1'000'000'000;

constexpr std::array latency{
    1 * ms,      5 * ms,      10 * ms,     20 * ms,     40 * ms,      60 * ms,      80 * ms,      100 * ms,
    200 * ms,    250 * ms,    400 * ms,    500 * ms,    600 * ms,     750 * ms,     800 * ms,     1 * second,
    2 * second,  2500 * ms,   4 * second,  5 * second,  6 * second,   7500 * ms,    8 * second,   10 * second,
    20 * second, 40 * second, 60 * second, 80 * second, 160 * second, 640 * second, 2560 * second};

// The steps are about 10 % from 5 to 100 ms. They are adjusted so that .01 .025 .05 .075 .1 (vLLM, OTel) are bounds
// themselves.
constexpr std::array per_token{
    500 * us,   1 * ms,     2 * ms,     4 * ms,                                                      //
    5 * ms,     5500 * us,  6 * ms,     6700 * us,  7400 * us,   8250 * us,   9100 * us,             //
    10 * ms,    11 * ms,    12 * ms,    13200 * us, 14500 * us,  16 * ms,     17500 * us,  19 * ms,  //
    21 * ms,    23 * ms,                                                                             //
    25 * ms,    27500 * us, 30 * ms,    33500 * us, 37 * ms,     41 * ms,     45 * ms,               //
    50 * ms,    55 * ms,    61 * ms,    68 * ms,                                                     //
    75 * ms,    82500 * us, 91 * ms,                                                                 //
    100 * ms,   150 * ms,   200 * ms,   300 * ms,   400 * ms,    500 * ms,    750 * ms,              //
    1 * second, 2500 * ms,  5 * second, 7500 * ms,  10 * second, 20 * second, 40 * second, 80 * second};

constexpr std::array duration{50 * ms,     100 * ms,     250 * ms,     500 * ms,     1 * second,
                              2500 * ms,   5 * second,   10 * second,  20 * second,  30 * second,
                              60 * second, 120 * second, 300 * second, 600 * second, 1800 * second};

constexpr std::array overhead{1 * us,   2 * us, 5 * us, 10 * us, 20 * us, 50 * us, 100 * us, 200 * us,
                              500 * us, 1 * ms, 2 * ms, 5 * ms,  10 * ms, 20 * ms, 50 * ms,  100 * ms};

constexpr std::array loop_delay{100 * us, 200 * us, 500 * us, 1 * ms,   2 * ms,   5 * ms,    10 * ms,
                                20 * ms,  50 * ms,  100 * ms, 200 * ms, 500 * ms, 1 * second};

constexpr auto size = [] {
  std::array<std::uint64_t, 21> bounds{};
  for (std::size_t i = 0; i < bounds.size(); ++i) bounds[i] = std::uint64_t{1} << i;
  return bounds;
}();

constexpr std::array<std::uint64_t, 12> ratio{250, 500, 700, 800, 900, 950, 1050, 1100, 1250, 1500, 2000, 4000};

constexpr auto speed = [] {
  std::array<std::uint64_t, 16> bounds{1, 2, 5, 10, 15, 20, 30, 50, 75, 100, 150, 200, 500, 1000, 2000, 5000};
  for (auto& bound : bounds) bound *= 1000;
  return bounds;
}();

std::vector<std::uint64_t> with(std::span<const std::uint64_t> bounds, std::span<const config::Slo> slos,
                                std::initializer_list<std::optional<config::Seconds> config::Slo::*> thresholds) {
  std::vector<std::uint64_t> all(bounds.begin(), bounds.end());
  for (const auto& slo : slos) {
    for (const auto threshold : thresholds) {
      if (const auto& value = slo.*threshold)
        all.push_back(static_cast<std::uint64_t>(std::llround(value->count() * 1e9)));
    }
  }
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace

Bounds::Bounds(std::span<const config::Slo> slos)
    : latency(with(latency_bounds, slos, {&config::Slo::ttft_client, &config::Slo::ttft})),
      per_token(with(per_token_bounds, slos, {&config::Slo::tpot})),
      duration(with(duration_bounds, slos, {&config::Slo::e2e})) {}

constinit const std::span<const std::uint64_t> latency_bounds{latency};
constinit const std::span<const std::uint64_t> per_token_bounds{per_token};
constinit const std::span<const std::uint64_t> duration_bounds{duration};
constinit const std::span<const std::uint64_t> overhead_bounds{overhead};
constinit const std::span<const std::uint64_t> loop_delay_bounds{loop_delay};
constinit const std::span<const std::uint64_t> size_bounds{size};
constinit const std::span<const std::uint64_t> ratio_bounds{ratio};
constinit const std::span<const std::uint64_t> speed_bounds{speed};

}  // namespace weir::metrics::series

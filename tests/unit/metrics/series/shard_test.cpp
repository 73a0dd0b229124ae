#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "metrics/series/shard.hpp"
#include "tests/unit/metrics/record/sample_record.hpp"

namespace weir::metrics::series {
namespace {

using record::at;
using record::streamed;
using record::unstreamed;

std::uint64_t count_of(const Histogram& histogram) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i <= histogram.bounds().size(); ++i) count += histogram.bucket(i);
  return count;
}

std::uint64_t all_requests(const ReplicaShard& shard) {
  std::uint64_t sum = 0;
  for (const auto& outcome : shard.requests) {
    for (const auto& api : outcome) sum += api[0].value() + api[1].value();
  }
  return sum;
}

std::unique_ptr<ReplicaShard> settled(const record::RequestRecord& record) {
  auto shard = std::make_unique<ReplicaShard>();
  shard->settle(record);
  return shard;
}

/// Counts the observations that settle() put into latency and size series, in one number.
std::uint64_t observations(const ReplicaShard& shard) {
  std::uint64_t sum = count_of(shard.time_per_output_token) + count_of(shard.queue_duration) +
                      count_of(shard.request_output_tokens_per_second) + count_of(shard.request_prompt_tokens) +
                      count_of(shard.request_output_tokens) + count_of(shard.prompt_estimate_ratio) +
                      count_of(shard.inter_token_latency);
  for (std::size_t api = 0; api < api_names.size(); ++api) {
    for (const bool stream : {false, true}) sum += count_of(shard.request_duration(static_cast<Api>(api), stream));
  }
  return sum;
}

TEST(ReplicaShardSettle, PutsAServedStreamIntoEverySeries) {
  const auto shard = settled(streamed());
  EXPECT_EQ(shard->requests[ReplicaShard::outcome_slot(Outcome::ok, Phase::queue)][0][1].value(), 1U);
  EXPECT_EQ(all_requests(*shard), 1U);
  EXPECT_EQ(shard->queue_duration.sum(), 2'000'000U);
  EXPECT_EQ(shard->request_duration(Api::openai_chat, true).sum(), 1'102'000'000U);
  EXPECT_EQ(shard->time_per_output_token.sum(), 10'000'000U);
  EXPECT_EQ(shard->request_output_tokens_per_second.sum(), 100'000U);
  EXPECT_EQ(shard->request_prompt_tokens.sum(), 550U);
  EXPECT_EQ(shard->request_output_tokens.sum(), 101U);
  EXPECT_EQ(shard->prompt_estimate_ratio.sum(), 966U);  // It is 531 / 550 = 0.96545..., rounded up.
  EXPECT_EQ(shard->prompt_tokens.value(), 550U);
  EXPECT_EQ(shard->cached_prompt_tokens.value(), 50U);
  EXPECT_EQ(shard->prompt_tokens_cache_known.value(), 550U);
  EXPECT_EQ(shard->requests_by_token_source[1].value(), 1U);
  EXPECT_EQ(shard->output_tokens.value(), 0U);  // All 101 were counted while they flowed.
  EXPECT_EQ(shard->output_tokens_overcounted.value(), 0U);
  EXPECT_EQ(shard->reasoning_tokens.value(), 40U);
  EXPECT_EQ(shard->aborted_output_tokens.value(), 0U);
  EXPECT_EQ(shard->itl_unknown_requests.value(), 0U);
}

TEST(ReplicaShardSettle, LeavesWhatTheMeterWritesToTheMeter) {
  const auto shard = settled(streamed());
  EXPECT_EQ(count_of(shard->time_to_first_token), 0U);
  EXPECT_EQ(count_of(shard->client_time_to_first_token), 0U);
  EXPECT_EQ(count_of(shard->inter_chunk_latency), 0U);
  EXPECT_EQ(count_of(shard->token_overhead), 0U);
}

TEST(ReplicaShardSettle, GivesAWholeDocumentNoPerTokenSeries) {
  const auto shard = settled(unstreamed());
  EXPECT_EQ(shard->request_duration(Api::openai_chat, false).sum(), 1'103'000'000U);
  EXPECT_EQ(count_of(shard->request_duration(Api::openai_chat, true)), 0U);
  EXPECT_EQ(count_of(shard->time_per_output_token), 0U);
  EXPECT_EQ(count_of(shard->inter_token_latency), 0U);
  EXPECT_EQ(count_of(shard->request_output_tokens_per_second), 0U);
  EXPECT_EQ(shard->itl_unknown_requests.value(), 0U);
  EXPECT_EQ(shard->request_output_tokens.sum(), 101U);
  EXPECT_EQ(shard->output_tokens.value(), 101U);  // Nothing could be counted before.
}

struct OutcomeCase {
  Outcome outcome;
  Phase phase;
  Completeness complete;
  std::optional<unsigned> status;
  bool in_band_error;
  bool served;
};

TEST(ReplicaShardSettle, KeepsFailedAndAbortedRequestsOutOfLatenciesButCountsTheirTokens) {
  const auto none = Completeness::none;
  const auto marker = Completeness::marker;
  const OutcomeCase cases[] = {
      {Outcome::ok, Phase::queue, marker, 200, false, true},
      {Outcome::ok_empty, Phase::queue, marker, 200, false, true},
      {Outcome::upstream_error, Phase::queue, marker, 200, true, false},
      {Outcome::upstream_error, Phase::queue, Completeness::framing, 500, false, false},
      {Outcome::upstream_reset, Phase::queue, none, 200, false, false},
      {Outcome::truncated, Phase::queue, none, 200, false, false},
      {Outcome::timeout, Phase::queue, none, 200, false, false},
      {Outcome::replica_refused, Phase::queue, Completeness::framing, 429, false, false},
      {Outcome::client_error, Phase::queue, Completeness::framing, 400, false, false},
      {Outcome::client_abort, Phase::queue, none, {}, false, false},
      {Outcome::client_abort, Phase::prefill, none, 200, false, false},
      {Outcome::client_abort, Phase::decode, none, 200, false, false},
      {Outcome::client_abort, Phase::decode, marker, 200, false, true},  // The replica had finished.
      {Outcome::client_abort, Phase::decode, Completeness::eof, {}, false, true},
      {Outcome::client_abort, Phase::decode, marker, 200, true, false},
      {Outcome::client_abort, Phase::prefill, Completeness::framing, 500, false, false},
      {Outcome::rejected, Phase::queue, none, 429, false, false},
      {Outcome::bad_request, Phase::queue, none, 400, false, false},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(testing::Message() << name_of(c.outcome) << ' ' << name_of(c.phase) << ' ' << name_of(c.complete));
    record::RequestRecord record = streamed();
    record.outcome = c.outcome;
    if (c.outcome == Outcome::client_abort) record.phase = c.phase;
    record.answer.complete = c.complete;
    record.answer.in_band_error = c.in_band_error;
    record.answer.counted_tokens = 90;
    record.status = c.status;
    const auto shard = settled(record);

    EXPECT_EQ(observations(*shard), c.served ? 7U + 100U : 0U);
    EXPECT_EQ(shard->requests[ReplicaShard::outcome_slot(c.outcome, c.phase)][0][1].value(), 1U);
    EXPECT_EQ(all_requests(*shard), 1U);
    EXPECT_EQ(shard->prompt_tokens.value(), 550U);
    EXPECT_EQ(shard->output_tokens.value(), 11U);
    EXPECT_EQ(shard->aborted_output_tokens.value(), c.outcome == Outcome::client_abort ? 101U : 0U);
    EXPECT_EQ(shard->itl_unknown_requests.value(), c.served ? 0U : 1U);
  }
}

TEST(ReplicaShardSettle, GivesEveryOutcomeAndPhaseASlotOfItsOwn) {
  std::set<std::size_t> slots;
  for (std::size_t o = 0; o < outcome_names.size(); ++o) {
    for (std::size_t p = 0; p < phase_names.size(); ++p) {
      const auto slot = ReplicaShard::outcome_slot(static_cast<Outcome>(o), static_cast<Phase>(p));
      EXPECT_LT(slot, ReplicaShard::outcome_slots);
      slots.insert(slot);
    }
  }
  EXPECT_EQ(slots.size(), ReplicaShard::outcome_slots);
}

TEST(ReplicaShardSettle, CountsByApiAndStream) {
  ReplicaShard shard;
  for (std::size_t api = 0; api < api_names.size(); ++api) {
    for (const bool stream : {false, true}) {
      record::RequestRecord record = stream ? streamed() : unstreamed();
      record.facts.api = static_cast<Api>(api);
      shard.settle(record);
      EXPECT_EQ(shard.requests[0][api][stream ? 1 : 0].value(), 1U);
      EXPECT_EQ(count_of(shard.request_duration(static_cast<Api>(api), stream)), 1U);
    }
  }
  EXPECT_EQ(all_requests(shard), 2 * api_names.size());
}

struct OutputCase {
  std::optional<std::uint64_t> n;
  std::uint64_t counted, added, overcounted, aborted;
};

TEST(ReplicaShardSettle, ReconcilesOutputTokensWithUsage) {
  const OutputCase cases[] = {
      {101, 101, 0, 0, 101}, {101, 90, 11, 0, 101}, {101, 110, 0, 9, 101}, {101, 0, 101, 0, 101},
      {0, 3, 0, 3, 0},       {{}, 40, 0, 0, 40},    {{}, 0, 0, 0, 0},
  };
  for (const auto& c : cases) {
    record::RequestRecord record = streamed();
    record.outcome = Outcome::client_abort;
    record.phase = Phase::decode;
    record.answer.output_tokens = c.n;
    record.answer.counted_tokens = c.counted;
    const auto shard = settled(record);
    EXPECT_EQ(shard->output_tokens.value(), c.added) << c.counted;
    EXPECT_EQ(shard->output_tokens_overcounted.value(), c.overcounted) << c.counted;
    EXPECT_EQ(shard->aborted_output_tokens.value(), c.aborted) << c.counted;
  }
}

TEST(ReplicaShardSettle, StoresNothingThatIsMissing) {
  record::RequestRecord record;
  record.outcome = Outcome::ok;
  record.received = at(0);
  const auto shard = settled(record);
  EXPECT_EQ(observations(*shard), 0U);
  EXPECT_EQ(shard->prompt_tokens.value(), 0U);
  EXPECT_EQ(shard->prompt_tokens_cache_known.value(), 0U);
}

TEST(ReplicaShardSettle, MissesTokenCountsOnlyWhereThereCouldBeTokens) {
  const auto missing = [](Api api, Outcome outcome, TokenSource source = TokenSource::none) {
    record::RequestRecord record;
    record.facts.api = api;
    record.outcome = outcome;
    record.answer.token_source = source;
    const auto shard = settled(record);
    std::string counted;
    for (const Counter& counter : shard->requests_by_token_source) counted += std::to_string(counter.value());
    return counted;
  };
  EXPECT_EQ(missing(Api::openai_chat, Outcome::ok), "100");
  EXPECT_EQ(missing(Api::ollama_chat, Outcome::ok_empty), "100");
  for (const Api api : {Api::other, Api::openai_embeddings, Api::rerank, Api::score})
    EXPECT_EQ(missing(api, Outcome::ok), "000") << name_of(api);
  for (const Outcome outcome :
       {Outcome::client_error, Outcome::replica_refused, Outcome::upstream_error, Outcome::upstream_reset,
        Outcome::timeout, Outcome::truncated, Outcome::rejected, Outcome::bad_request, Outcome::client_abort})
    EXPECT_EQ(missing(Api::openai_chat, outcome), "000") << name_of(outcome);
  EXPECT_EQ(missing(Api::openai_chat, Outcome::client_abort, TokenSource::usage), "010") << "what is told is told";
  EXPECT_EQ(missing(Api::tgi_generate, Outcome::truncated, TokenSource::events), "001");
}

TEST(ReplicaShardSettle, PutsPromptTokensUnderTheHitRateOnlyWhereCachedOnesAreKnown) {
  record::RequestRecord record = streamed();
  record.answer.cached_tokens.reset();
  const auto unknown = settled(record);
  EXPECT_EQ(unknown->prompt_tokens.value(), 550U);
  EXPECT_EQ(unknown->cached_prompt_tokens.value(), 0U);
  EXPECT_EQ(unknown->prompt_tokens_cache_known.value(), 0U);

  record.answer.cached_tokens = 0;
  EXPECT_EQ(settled(record)->prompt_tokens_cache_known.value(), 550U);

  record.answer.cached_tokens = 5;
  record.answer.prompt_tokens.reset();
  EXPECT_EQ(settled(record)->cached_prompt_tokens.value(), 0U);
}

TEST(ReplicaShardSettle, ComparesEstimateAndTruthInThousandthsExactAtTheBounds) {
  const auto ratio = [](std::optional<std::uint64_t> estimate, std::optional<std::uint64_t> truth) {
    record::RequestRecord record = streamed();
    record.prompt_tokens_estimate = estimate;
    record.answer.prompt_tokens = truth;
    record.answer.cached_tokens.reset();
    const auto shard = settled(record);
    return count_of(shard->prompt_estimate_ratio) ? std::optional{shard->prompt_estimate_ratio.sum()} : std::nullopt;
  };
  EXPECT_EQ(ratio(500, 1000), 500U);
  EXPECT_EQ(ratio(9500, 10000), 950U);
  EXPECT_EQ(ratio(9501, 10000), 951U);  // It is above .95, so not in its bucket.
  EXPECT_EQ(ratio(0, 10), 0U);
  EXPECT_EQ(ratio(10, 0), std::nullopt);
  EXPECT_EQ(ratio({}, 10), std::nullopt);
  EXPECT_EQ(ratio(10, {}), std::nullopt);
}

TEST(ReplicaShardSettle, TurnsSettledGapsIntoInterTokenLatency) {
  const record::RequestRecord record = streamed();
  const auto shard = settled(record);
  EXPECT_EQ(count_of(shard->inter_token_latency), 100U);
  EXPECT_EQ(shard->inter_token_latency.sum(), 99 * 10'000'000U + 30'000'000U);
}

TEST(ReplicaShardSettle, CountsStreamsWhoseGapsStayedChunkGaps) {
  struct Case {
    const char* name;
    std::function<void(record::RequestRecord&)> bend;
    std::uint64_t unknown, observed;
  };
  const Case cases[] = {
      {"settled", [](auto&) {}, 0, 100},
      {"unknown", [](auto& r) { r.answer.tokens_per_event = TokensPerEvent::unknown; }, 1, 0},
      {"on the wire: observed while it flowed", [](auto& r) { r.answer.tokens_per_event = TokensPerEvent::wire; }, 0,
       0},
      {"several choices: gaps are each choice's own", [](auto& r) { r.facts.n = 2; }, 0, 100},
      {"one token event has no gap",
       [](auto& r) {
         r.answer.tokens_per_event = TokensPerEvent::unknown;
         r.answer.token_events = 1;
         r.answer.gaps = {};
       },
       0, 0},
      {"two choices of one token event each have none either",
       [](auto& r) {
         r.facts.n = r.answer.token_events = 2;
         r.answer.tokens_per_event = TokensPerEvent::unknown;
         r.answer.gaps = {};
       },
       0, 0},
      {"truncated", [](auto& r) { r.outcome = Outcome::truncated; }, 1, 0},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    record::RequestRecord record = streamed();
    c.bend(record);
    const auto shard = settled(record);
    EXPECT_EQ(shard->itl_unknown_requests.value(), c.unknown);
    EXPECT_EQ(count_of(shard->inter_token_latency), c.observed);
  }
}

TEST(ReplicaShardSettle, ObservesEachChoiceWhoseTokensAreKnown) {
  record::RequestRecord record = streamed();
  record.facts.n = 3;
  EXPECT_EQ(count_of(settled(record)->time_per_output_token), 0U) << "usage is a sum: no choice's own";
  record.answer.choices = {{at(102), at(1102), 101, 1}, {at(102), at(602), 11, 1}, {at(102), at(102), 1, 1}};
  const auto shard = settled(record);
  EXPECT_EQ(count_of(shard->time_per_output_token), 2U) << "one token has no time per token";
  EXPECT_EQ(shard->time_per_output_token.sum(), 60'000'000U);
  EXPECT_EQ(shard->request_output_tokens_per_second.sum(), 120'000U);
  record.outcome = Outcome::truncated;
  EXPECT_EQ(count_of(settled(record)->time_per_output_token), 0U);
}

TEST(ReplicaShardSettle, SuspectsStreamsWhoseEventsMostlyCameTogether) {
  struct Case {
    bool stream;
    std::uint32_t events, coalesced;
    std::uint64_t suspect;
  };
  const Case cases[] = {{true, 8, 5, 1}, {true, 8, 4, 0}, {true, 9, 5, 1}, {true, 9, 4, 0},
                        {true, 7, 7, 0}, {true, 0, 0, 0}, {false, 8, 8, 0}};
  for (const auto& c : cases) {
    for (const auto source : {TokensPerEvent::unknown, TokensPerEvent::wire, TokensPerEvent::settled}) {
      record::RequestRecord record = streamed();
      record.facts.stream = c.stream;
      record.answer.tokens_per_event = source;
      record.answer.token_events = c.events;
      record.answer.coalesced_token_events = c.coalesced;
      EXPECT_EQ(settled(record)->itl_suspect_requests.value(), c.suspect) << c.events << ' ' << c.coalesced;
    }
  }
  record::RequestRecord record = streamed();
  record.answer.token_reads = 40;
  record.answer.coalesced_reads = 9;
  EXPECT_EQ(settled(record)->token_reads.value(), 40U);
  EXPECT_EQ(settled(record)->coalesced_token_reads.value(), 9U);
}

TEST(ReplicaShardSettle, FollowsOtherObjectives) {
  const auto of = [](std::vector<config::Slo> slos) { return std::make_shared<const Objectives>(std::move(slos)); };
  ReplicaShard shard{of({{"a", "chat", config::Seconds{1}, {}, {}, {}}, {"b", "chat", {}, {}, {}, config::Seconds{1}}}),
                     "chat"};
  shard.settle(streamed());
  shard.follow(of({{"c", "chat", config::Seconds{1}, {}, {}, {}},
                   {"b", "chat", {}, {}, {}, config::Seconds{9}},
                   {"d", "code", {}, {}, {}, config::Seconds{9}}}),
               "chat");
  shard.settle(streamed());
  ASSERT_EQ(shard.slo_requests.size(), 2U) << "those of its pool";
  EXPECT_EQ(shard.slo_results("b")[0].value(), 1U) << "it took 1.1 s of 9";
  EXPECT_EQ(shard.slo_results("b")[1].value(), 1U) << "it keeps what it counted under this name";
  EXPECT_EQ(shard.slo_results("c")[0].value(), 1U);
  EXPECT_EQ(shard.slo_results("a")[0].value(), 0U);
  const auto bounds = shard.request_duration(Api::openai_chat, true).bounds();
  EXPECT_TRUE(std::ranges::binary_search(bounds, 9'000'000'000U));
}

TEST(ReplicaShardSettle, DoesNotBelieveNumbersThatWouldWrapACounter) {
  record::RequestRecord record = streamed();
  record.answer.prompt_tokens = ~std::uint64_t{0};
  record.answer.output_tokens = ~std::uint64_t{0} - 5;
  const auto shard = settled(record);
  EXPECT_EQ(shard->prompt_tokens.value(), 0U);
  EXPECT_EQ(shard->output_tokens.value(), 0U);
  EXPECT_EQ(count_of(shard->request_prompt_tokens), 0U);
  EXPECT_EQ(count_of(shard->request_output_tokens), 0U);
  EXPECT_LE(shard->request_output_tokens_per_second.sum(), 1'000'000'000'000U);
}

/// Returns the bucket in which Prometheus' definition of `le` puts a value, found the slow way.
std::size_t slow_bucket(std::span<const std::uint64_t> bounds, std::uint64_t value) {
  std::size_t at = 0;
  while (at < bounds.size() && value > bounds[at]) ++at;
  return at;
}

TEST(Histogram, GoesOnWithOtherBounds) {
  const std::vector<std::uint64_t> before{10, 20, 40}, after{10, 15, 20, 50};
  Histogram histogram(before);
  for (const std::uint64_t value : {5u, 12u, 18u, 30u, 45u, 60u}) histogram.observe(value);
  histogram.rebound(after);
  histogram.observe(12);
  histogram.observe(45);
  // 12 and 18 were known to be at most 20, 30 at most 40; what was above every bound stays there.
  const std::vector<std::uint64_t> expected{1, 1, 2, 2, 2};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(histogram.bucket(i), expected[i]) << i;
  EXPECT_EQ(histogram.sum(), 5U + 12 + 18 + 30 + 45 + 60 + 12 + 45);
}

class HistogramOfBounds : public testing::TestWithParam<std::span<const std::uint64_t>> {};

TEST_P(HistogramOfBounds, CountsExactlyWhatBruteForceCounts) {
  const auto bounds = GetParam();
  Histogram histogram(bounds);
  std::vector<std::uint64_t> expected(bounds.size() + 1);
  std::uint64_t sum = 0;
  std::mt19937_64 random(20261121);
  std::uniform_int_distribution<std::size_t> any_bound(0, bounds.size() - 1);
  std::uniform_int_distribution<std::uint64_t> near(0, 2);
  std::uniform_int_distribution<std::uint64_t> anywhere(0, bounds.back() * 2);
  std::uniform_int_distribution<std::uint64_t> times(1, 5);
  for (int i = 0; i < 20'000; ++i) {
    // Half of the values lie on a bound or one beside it, where a mistake would show.
    const std::uint64_t value = i % 2 ? anywhere(random) : bounds[any_bound(random)] - 1 + near(random);
    const std::uint64_t count = times(random);
    histogram.observe(value, count);
    expected[slow_bucket(bounds, value)] += count;
    sum += value * count;
  }
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(histogram.bucket(i), expected[i]) << "bucket " << i;
  EXPECT_EQ(histogram.sum(), sum);
}

INSTANTIATE_TEST_SUITE_P(All, HistogramOfBounds,
                         testing::Values(latency_bounds, per_token_bounds, duration_bounds, overhead_bounds,
                                         size_bounds, ratio_bounds, speed_bounds));

using testing::ElementsAreArray;
using testing::IsSupersetOf;

/// Returns the bounds in their exported unit, as integers of the histogram's.
std::vector<std::uint64_t> scaled(const std::vector<double>& values, double unit) {
  std::vector<std::uint64_t> out;
  for (const double value : values) out.push_back(static_cast<std::uint64_t>(std::llround(value * unit)));
  return out;
}

TEST(Buckets, AscendStrictly) {
  for (const auto bounds : {latency_bounds, per_token_bounds, duration_bounds, overhead_bounds, size_bounds,
                            ratio_bounds, speed_bounds, loop_delay_bounds}) {
    ASSERT_FALSE(bounds.empty());
    EXPECT_TRUE(std::ranges::is_sorted(bounds, std::less_equal<>{}));
    EXPECT_GT(bounds.front(), 0U);
  }
}

TEST(Buckets, AreThoseOfTheDefinition) {
  EXPECT_THAT(latency_bounds,
              ElementsAreArray(scaled({.001, .005, .01, .02, .04, .06, .08, .1, .2, .25, .4, .5, .6,  .75, .8,  1,
                                       2,    2.5,  4,   5,   6,   7.5, 8,   10, 20, 40,  60, 80, 160, 640, 2560},
                                      1e9)));
  EXPECT_THAT(duration_bounds,
              ElementsAreArray(scaled({.05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800}, 1e9)));
  EXPECT_THAT(overhead_bounds,
              ElementsAreArray(scaled({1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5}, 1e3)));
  EXPECT_THAT(ratio_bounds, ElementsAreArray(scaled({.25, .5, .7, .8, .9, .95, 1.05, 1.1, 1.25, 1.5, 2, 4}, 1e3)));
  EXPECT_THAT(speed_bounds,
              ElementsAreArray(scaled({1, 2, 5, 10, 15, 20, 30, 50, 75, 100, 150, 200, 500, 1000, 2000, 5000}, 1e3)));
  ASSERT_EQ(size_bounds.size(), 21U);
  for (std::size_t i = 0; i < size_bounds.size(); ++i) EXPECT_EQ(size_bounds[i], std::uint64_t{1} << i);
}

TEST(Buckets, PerTokenHoldTheEdgesOfVllmAndOpenTelemetry) {
  const std::vector<double> vllm{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
  EXPECT_THAT(per_token_bounds, IsSupersetOf(scaled(vllm, 1e9)));
  EXPECT_THAT(per_token_bounds, IsSupersetOf(scaled({.0005, .001, .002, .004, .005}, 1e9)));
  const auto below_5_ms = std::ranges::count_if(per_token_bounds, [](auto bound) { return bound < 5'000'000; });
  const auto above_100_ms = std::ranges::count_if(per_token_bounds, [](auto bound) { return bound > 100'000'000; });
  EXPECT_EQ(below_5_ms, 4);
  EXPECT_EQ(above_100_ms, 14);
}

TEST(Buckets, PerTokenStepByAboutTenPercentFrom5To100Milliseconds) {
  for (std::size_t i = 1; i < per_token_bounds.size(); ++i) {
    if (per_token_bounds[i - 1] < 5'000'000 || per_token_bounds[i] > 100'000'000) continue;
    const double step = static_cast<double>(per_token_bounds[i]) / static_cast<double>(per_token_bounds[i - 1]);
    EXPECT_GT(step, 1.08) << per_token_bounds[i];
    EXPECT_LT(step, 1.12) << per_token_bounds[i];
  }
}

TEST(Buckets, TakeInEveryThresholdOnce) {
  const std::vector<config::Slo> slos{
      {"a", "p", config::Seconds{1}, config::Seconds{1.5}, config::Seconds{0.042}, config::Seconds{45}},
      {"b", "q", config::Seconds{1.5}, {}, {}, config::Seconds{30}}};
  const Bounds bounds{slos};
  const auto joined = [](std::span<const std::uint64_t> plain, std::vector<std::uint64_t> more) {
    more.insert(more.end(), plain.begin(), plain.end());
    std::ranges::sort(more);
    return more;
  };
  EXPECT_EQ(bounds.latency, joined(latency_bounds, scaled({1.5}, 1e9))) << "1 s is a bound anyhow";
  EXPECT_EQ(bounds.per_token, joined(per_token_bounds, scaled({.042}, 1e9)));
  EXPECT_EQ(bounds.duration, joined(duration_bounds, scaled({45}, 1e9)));
}

}  // namespace
}  // namespace weir::metrics::series

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <chrono>
#include <set>
#include <vector>

#include "lab/engine/engine_model.hpp"
#include "lab/experiment/sweep.hpp"
#include "tests/golden.hpp"
#include "tests/unit/lab/load/made_results.hpp"

namespace weir::lab::experiment {
namespace {

using load::made_result;
using testing::Each;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

/// Returns batches of two, one after the other, with these gaps between their tokens.
std::vector<BatchResults> batches(const std::vector<double>& gaps) {
  std::vector<BatchResults> all;
  for (const double gap : gaps) {
    const double begin = 100 * static_cast<double>(all.size());
    all.push_back({made_result({.sent = begin, .ttft = 0.2, .gap = gap, .events = 31}),
                   made_result({.sent = begin + 0.001, .ttft = 0.2, .gap = gap, .events = 31})});
  }
  return all;
}

TEST(BatchSize, LeavesTheWarmUpOutAndGivesTheSpreadOfTheBatches) {
  const auto size = batch_size(2, batches({0.5, 0.01, 0.01}), 1);
  EXPECT_EQ(size.batches, 2u);
  ASSERT_TRUE(size.decode);
  EXPECT_THAT(size.decode->latency, Each(FloatNear(0.01F, 1e-4F)));
  ASSERT_TRUE(size.prefill);
  EXPECT_THAT(size.prefill->latency, SizeIs(4));
  EXPECT_NEAR(size.prefill->tokens_per_second, 200 / 0.201, 1);
  EXPECT_NEAR(size.prefill->batch_seconds, 0.201, 1e-4);
  const auto decode = batch_size(2, batches({0.01, 0.02}), 0).decode;
  ASSERT_TRUE(decode);
  EXPECT_NEAR(decode->fastest, 200, 2);
  EXPECT_NEAR(decode->slowest, 100, 1);
  EXPECT_GT(decode->tokens_per_second, decode->slowest);
  EXPECT_LT(decode->tokens_per_second, decode->fastest);
}

TEST(BatchSize, LeavesOutABatchThatIsNotWhole) {
  auto failed = batches({0.01, 0.01, 0.01}), ended = batches({0.01, 0.01}), empty = ended;
  for (load::Result* one : {&failed[0][0], &failed[1][0]}) {
    one->outcome = "http_503";
    one->detail = "busy";
  }
  const auto of_failed = batch_size(2, failed, 1);
  EXPECT_EQ(of_failed.batches, 1u);
  EXPECT_EQ(of_failed.left_out, 1u);
  EXPECT_EQ(of_failed.failed, 2u) << "that of the warm-up too";
  EXPECT_EQ(of_failed.failure, "http_503: busy");
  ended[1][1].outcome = "unfinished";
  const auto of_ended = batch_size(2, ended, 0);
  EXPECT_EQ(of_ended.batches, 1u);
  EXPECT_EQ(of_ended.failed + of_ended.left_out, 0u) << "no failure of the replica's";
  empty[1][0] = made_result({.events = 0});
  const auto of_empty = batch_size(2, empty, 0);
  EXPECT_EQ(of_empty.left_out, 1u);
  EXPECT_EQ(of_empty.failed, 0u);
  EXPECT_EQ(of_empty.without_token, 1u);
  const auto small = batch_size(8, batches({0.01}), 0);
  EXPECT_EQ(small.batches, 0u);
  EXPECT_FALSE(small.prefill || small.decode);
}

TEST(BatchSize, WithoutARateHasNoPhase) {
  const std::vector<BatchResults> apart{
      {made_result({.sent = 0, .ttft = 0.1, .events = 20}), made_result({.sent = 0.01, .ttft = 9, .events = 20})}};
  const auto size = batch_size(2, apart, 0), one_read = batch_size(2, batches({0}), 0);
  EXPECT_TRUE(size.prefill);
  EXPECT_FALSE(size.decode);
  EXPECT_EQ(size.steady, 0u);
  EXPECT_EQ(size.unsteady, Unsteady::not_together);
  EXPECT_TRUE(one_read.prefill);
  EXPECT_FALSE(one_read.decode) << "no rate is infinite";
  const std::vector<BatchResults> still{{made_result({.ttft = 0})}};
  EXPECT_FALSE(batch_size(1, still, 0).prefill) << "the clock did not move";
}

TEST(Operations, AreThePointsThatHaveThePhase) {
  std::vector<BatchSize> sizes(2);
  sizes[0].concurrency = 4;
  sizes[0].decode = Phase{{0.04F, 0.01F, 0.01F}, 300, 300, 300, 1};
  const auto operations = operations_of(sizes, &BatchSize::decode);
  ASSERT_EQ(operations.size(), 1u);
  EXPECT_EQ(operations[0].concurrency, 4u);
  EXPECT_NEAR(operations[0].latency, 0.02, 1e-6);
  EXPECT_EQ(operations[0].throughput, 300);
}

SweepSettings settings() {
  SweepSettings s;
  s.load.workload.input_tokens = 3000;
  s.load.workload.output_tokens = 200;
  s.concurrencies = {2, 4};
  s.runs = 3;
  return s;
}

TEST(Sweep, IsMadeOfBatchesThatShareNoPrompt) {
  auto asked = settings();
  asked.load.duration = 9;
  const auto points = Sweep(asked).points();
  ASSERT_EQ(points.size(), 8u);
  EXPECT_EQ(points[0].begins, "2 at once, batch 1 of 4 (warm-up)");
  EXPECT_EQ(points[7].begins, "4 at once, batch 4 of 4");
  std::set<std::uint64_t> seeds;
  for (const Point& point : points) {
    const std::uint64_t size = asked.concurrencies[point.row];
    EXPECT_EQ(point.load.concurrency, size);
    EXPECT_EQ(point.load.requests, size);
    EXPECT_EQ(point.load.workload.input_stddev + point.load.workload.output_stddev, 0) << "all are alike";
    EXPECT_FALSE(point.load.duration || point.warm_up);
    seeds.insert(point.load.workload.seed);
  }
  EXPECT_EQ(seeds.size(), 8u);
}

TEST(Sweep, SaysWhatItTookOfItsBatches) {
  Sweep sweep(settings());
  const auto points = sweep.points();
  const auto all = batches({0.01, 0.01, 0.01, 0.01});
  for (std::size_t i = 0; i < 4; ++i) {
    Ran ran;
    ran.results = all[i];
    if (i == 1) ran.own_delay = "it was slow";
    sweep.take(points[i], std::move(ran));
  }
  const auto report = sweep.report(true);
  const auto json = boost::json::parse(report.json);
  ASSERT_EQ(json.at("sweep").as_array().size(), 1u) << "the second number at once was not reached";
  EXPECT_EQ(json.at("sweep").at(0).at("batches"), 3);
  EXPECT_EQ(json.at("sweep").at(0).at("own_delay"), "it was slow") << "of any batch";
  EXPECT_EQ(json.at("interrupted"), true);
  EXPECT_TRUE(report.whole);
  Ran none;
  none.problem = "cannot resolve x";
  EXPECT_THROW(sweep.take(points[4], none), std::runtime_error);
}

/// Returns what an engine that bends at 2 at once measured.
std::vector<BatchSize> measured() {
  std::vector<BatchSize> sizes;
  for (const std::uint64_t n : {1u, 2u, 4u}) {
    BatchSize size;
    size.concurrency = n;
    size.batches = size.steady = 3;
    const auto latency = static_cast<float>(n <= 2 ? 0.010 : 0.020);
    const double rate = static_cast<double>(n) / static_cast<double>(latency);
    size.prefill = Phase{std::vector<float>(3 * n, 0.1F * static_cast<float>(n)), 1000, 990, 1010, 0.5};
    size.decode = Phase{std::vector<float>(40 * n, latency), rate, rate, rate, 0.4};
    sizes.push_back(std::move(size));
  }
  return sizes;
}

TEST(SweepReport, HasTheKeysThatProgramsRead) {
  const auto json = boost::json::parse(report_of(settings(), measured(), false).json);
  const auto& point = json.at("sweep").at(1);
  EXPECT_EQ(point.at("concurrency"), 2);
  for (const auto* const phase : {"prefill", "decode"}) {
    EXPECT_GT(point.at(phase).at("latency_s").at("p50").to_number<double>(), 0) << phase;
    EXPECT_GT(point.at(phase).at("tokens_per_second").to_number<double>(), 0) << phase;
    const auto& histogram = point.at(phase).at("histogram");
    EXPECT_EQ(histogram.at("edges_s").as_array().size(), histogram.at("counts").as_array().size() + 1);
    std::int64_t values = 0;
    for (const auto& count : histogram.at("counts").as_array()) values += count.to_number<std::int64_t>();
    EXPECT_EQ(values, point.at(phase).at("latency_s").at("count").to_number<std::int64_t>());
  }
  EXPECT_EQ(json.at("knee").at("prefill"), 1);
  EXPECT_EQ(json.at("knee").at("decode"), 2);
  EXPECT_EQ(json.at("interrupted"), false);
}

/// The report, and the lines that are others where something else was measured.
TEST(SweepReport, ReadsAsItsGoldenFile) {
  const auto markdown = [](const std::vector<BatchSize>& sizes) {
    return report_of(settings(), sizes, false).page.written(metrics::compare::report::Style::markdown);
  };
  const auto usual = markdown(measured());
  auto all = usual;
  const auto changed = [&](const std::string& what, const auto& change) {
    auto sizes = measured();
    change(sizes);
    all += "\n==== " + what + "\n" + tests::lines_beside(markdown(sizes), usual);
  };
  changed("no decode", [](auto& sizes) {
    sizes[2].decode.reset();
    sizes[2].steady = 0;
    sizes[2].unsteady = Unsteady::not_together;
  });
  changed("a batch of failures", [](auto& sizes) {
    sizes[1].left_out = 1;
    sizes[1].failed = 2;
    sizes[1].failure = "http_503: busy";
  });
  changed("batches without tokens", [](auto& sizes) { sizes[1].left_out = 2, sizes[1].without_token = 3; });
  changed("both", [](auto& sizes) {
    sizes[1].left_out = sizes[1].without_token = sizes[1].failed = 1;
    sizes[1].failure = "reset";
  });
  changed("a failure in the warm-up", [](auto& sizes) { sizes[1].failed = 1, sizes[1].failure = "reset"; });
  changed("the knee below", [](auto& sizes) { sizes[0].concurrency = 3; });
  changed("the knee not reached", [](auto& sizes) { sizes[2].decode->latency = {0.001F}; });
  changed("a slow tool", [](auto& sizes) { sizes[2].own_delay = "this tool computed for 99 % of the time."; });
  tests::expect_golden("sweep.md", all);
}

TEST(SweepReport, WhatIsUnknownIsNull) {
  auto sizes = measured();
  sizes[0].concurrency = 3;
  sizes[2].decode.reset();
  sizes[2].own_delay = "this tool computed for 99 % of the time.";
  const auto json = boost::json::parse(report_of(settings(), sizes, false).json);
  EXPECT_TRUE(json.at("sweep").at(2).at("decode").is_null());
  EXPECT_TRUE(json.at("knee").at("decode").is_null());
  EXPECT_TRUE(json.at("knee").at("prefill").is_null()) << "it may lie below the lowest number";
  EXPECT_EQ(json.at("sweep").at(2).at("own_delay"), "this tool computed for 99 % of the time.");
  EXPECT_TRUE(json.at("sweep").at(1).at("own_delay").is_null());
}

TEST(SweepReport, WithoutFiguresIsThere) {
  const auto report = report_of(settings(), {}, true);
  EXPECT_THAT(as_text(report, false),
              testing::AllOf(HasSubstr("There are no figures."), HasSubstr("ended by its user")));
  EXPECT_FALSE(report.whole);
  EXPECT_THAT(report.notes, testing::ElementsAre("nothing was measured; see the report for why"));
}

TEST(SweepReport, DrawsBothPhasesAndColoursOnlyATerminal) {
  const auto report = report_of(settings(), measured(), false);
  const auto text = as_text(report, false);
  EXPECT_THAT(text, HasSubstr("Prefill: latency against throughput"));
  EXPECT_THAT(text, HasSubstr("Decode: latency against throughput"));
  EXPECT_THAT(text, HasSubstr("█"));
  EXPECT_THAT(report.page.written(metrics::compare::report::Style::plain), Not(HasSubstr("█"))) << "it has charts";
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(as_text(report, true), HasSubstr("\x1b"));
}

TEST(SweepReport, DrawsTheHistogramsOfSixNumbersAtOnceAtMost) {
  auto sizes = measured();
  for (std::uint64_t n = 8; n <= 1024; n *= 2) {
    sizes.push_back(sizes[2]);
    sizes.back().concurrency = n;
  }
  const auto charts = report_of(settings(), sizes, false).charts;
  ASSERT_EQ(charts.size(), 2u);
  for (const auto& under : charts) EXPECT_EQ(under.charts.size(), 2u) << under.about;
  const auto& histogram = std::get<chart::Histogram>(charts[0].charts[1]);
  ASSERT_EQ(histogram.series.size(), 6u);
  EXPECT_EQ(histogram.series.front().name, "1 at once");
  EXPECT_EQ(histogram.series.back().name, "1024 at once");
}

using load::Course;

/// Returns a request that is sent at `sent`, has its first token at `first`, and `tokens` in all, `gap` apart; so many
/// events of `before` come before these.
Course course(double sent, double first, std::size_t tokens, double gap, std::vector<double> before = {}) {
  Course made{sent, std::move(before), 1, 100};
  for (std::size_t i = 0; i < tokens; ++i) made.events.push_back(first + gap * static_cast<double>(i));
  return made;
}

TEST(Batch, PrefillLastsFromTheFirstSendToTheLastFirstToken) {
  const auto batch = batch_of(std::vector{course(1.0, 1.5, 20, 0.1), course(1.01, 1.8, 20, 0.1)});
  EXPECT_NEAR(batch.prefill.seconds, 0.8, 1e-9);
  EXPECT_EQ(batch.prefill.tokens, 200);
  EXPECT_THAT(batch.prefill.latency, testing::ElementsAre(testing::FloatEq(0.5F), testing::FloatEq(0.79F)));
}

TEST(Batch, DecodesInTheTimeInWhichAllDo) {
  Course drafted = course(0, 1, 21, 0.3);
  drafted.tokens_per_event = 3;
  const struct {
    const char* what;
    std::vector<Course> courses;
    double seconds, tokens;
    std::size_t gaps;
  } cases[]{
      {"The first is alone from 1 to 2 and slower there; the second goes on alone after 4.",
       {course(0, 2.0, 21, 0.1, {1.0, 1.5}), course(0, 2.0, 31, 0.1)},
       2,
       40,
       40},
      {"A gap that began in others' prefill is no decode, though its token comes in the steady time.",
       {course(0, 2.05, 21, 0.1, {1.0}), course(0, 2.0, 21, 0.1)},
       2,
       40,
       39},
      {"Five events come at 2 in one read, then ten more, 0.1 s apart: ten a second each, for a second.",
       {course(0, 2, 11, 0.1, {2, 2, 2, 2}), course(0, 2, 11, 0.1)},
       1,
       20,
       20},
      {"Tokens of one event share its gap.", {drafted}, 6, 60, 20},
  };
  for (const auto& [what, courses, seconds, tokens, gaps] : cases) {
    const auto batch = batch_of(courses);
    ASSERT_TRUE(batch.decode) << what;
    EXPECT_NEAR(batch.decode->seconds, seconds, 1e-9) << what;
    EXPECT_NEAR(batch.decode->tokens, tokens, 1e-9) << what;
    EXPECT_THAT(batch.decode->latency, Each(FloatNear(0.1F, 1e-5F))) << what;
    EXPECT_THAT(batch.decode->latency, SizeIs(gaps)) << what;
  }
}

TEST(Batch, SaysWhyItHasNoDecode) {
  const auto too_short = [](std::size_t together) {
    const double begin = 1 + 0.1 * static_cast<double>(20 - together);
    return batch_of(std::vector{course(0, 1, 20, 0.1), course(0, begin - 0.001, 20, 0.1)}).unsteady;
  };
  EXPECT_EQ(too_short(least_events - 1), Unsteady::too_short);
  EXPECT_EQ(too_short(least_events), Unsteady::no);
  EXPECT_EQ(batch_of(std::vector{course(0, 1, 1, 0)}).unsteady, Unsteady::one_token);
  const auto apart = batch_of(std::vector{course(0, 1, 20, 0.1), course(0, 5, 20, 0.1)});
  EXPECT_FALSE(apart.decode);
  EXPECT_EQ(apart.unsteady, Unsteady::not_together);
  EXPECT_NEAR(apart.prefill.seconds, 5, 1e-9) << "the prefill counts all the same";
  Course late = course(0, 1, 10, 0.01);
  late.events.insert(late.events.end(), 10, 2.0);
  const auto one_moment = batch_of(std::vector{late, course(0, 1.5, 20, 0.1)});
  EXPECT_FALSE(one_moment.decode) << "the last ten events come in one read; before them the request was alone";
  EXPECT_EQ(one_moment.unsteady, Unsteady::too_short);
}

constexpr std::uint64_t doublings[]{1, 2, 4, 8, 16, 32, 64, 128};

/// Returns the operations whose latency is `latency_of(batch)` and whose throughput is `each * batch` over it.
template <class LatencyOf>
std::vector<Operation> operations(const LatencyOf& latency_of, double each = 1) {
  std::vector<Operation> made;
  for (const std::uint64_t batch : doublings) {
    const double latency = latency_of(batch);
    made.push_back({batch, latency, each * static_cast<double>(batch) / latency});
  }
  return made;
}

/// Returns the curve of an engine whose step takes `base` up to `bend` sequences and grows in proportion beyond.
std::vector<Operation> curve(double bend, double base = 1) {
  return operations([&](std::uint64_t batch) { return base * std::max(1.0, static_cast<double>(batch) / bend); });
}

TEST(Knee, IsWhereLatencyBeginsToGrowIfThroughputStopsThere) {
  for (const std::uint64_t bend : {1u, 2u, 8u, 32u, 64u}) {
    const auto knee = knee_of(curve(static_cast<double>(bend)));
    EXPECT_EQ(knee.state, Knee::State::found);
    EXPECT_EQ(knee.concurrency, bend) << "at the first if throughput was never free";
    EXPECT_EQ(knee_of(curve(static_cast<double>(bend), 1e3)).concurrency, bend) << "it does not depend on units";
  }
  const std::vector<Operation> equal{{1, 1, 1}, {2, 2, 4}, {4, 3, 6}, {8, 9, 7}};
  EXPECT_EQ(knee_of(equal).concurrency, 2u) << "of equal power it is the lowest";
}

TEST(Knee, ThatLiesOutsideWhatWasTriedHasNoNumber) {
  const auto all = curve(2);
  const auto low = knee_of(std::span(all).subspan(2)), high = knee_of(curve(1000));
  EXPECT_EQ(low.state, Knee::State::at_or_below);
  EXPECT_EQ(high.state, Knee::State::not_reached);
  EXPECT_EQ(low.concurrency, std::nullopt);
  EXPECT_EQ(high.concurrency, std::nullopt);
}

TEST(Knee, NeedsThreePoints) {
  const auto all = curve(2);
  for (const std::size_t points : {0u, 1u, 2u}) {
    EXPECT_EQ(knee_of(std::span(all).first(points)).state, Knee::State::too_few);
  }
  EXPECT_EQ(knee_of(std::span(all).first(3)).state, Knee::State::found);
}

/// The published charts have decode flat to 32 sequences and bent from there to 64 (simulated cards, model time).
/// Prefill is linear in the batch, so its throughput is paid for from the first prompts on.
TEST(KneeOfThePresets, LiesBetweenThirtyTwoAndSixtyFourInDecodeAndLowInPrefill) {
  using Seconds = std::chrono::duration<double>;
  for (const engine::EnginePreset& preset : engine::engine_presets()) {
    const auto decode = knee_of(operations([&](std::uint64_t batch) {
      return Seconds(engine::decode_step(preset.settings, static_cast<std::uint32_t>(batch), 550)).count();
    }));
    const auto prefill = knee_of(operations(
        [&](std::uint64_t batch) { return Seconds(time_to_first_token(preset.settings, 550 * batch)).count(); }, 550));
    ASSERT_EQ(decode.state, Knee::State::found) << preset.name;
    ASSERT_EQ(prefill.state, Knee::State::found) << preset.name;
    EXPECT_GE(*decode.concurrency, 32u) << preset.name;
    EXPECT_LE(*decode.concurrency, 64u) << preset.name;
    EXPECT_LE(*prefill.concurrency, 2u) << preset.name;
  }
}

}  // namespace
}  // namespace weir::lab::experiment

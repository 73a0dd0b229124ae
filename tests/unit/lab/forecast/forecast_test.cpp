// Logs made by the simulation have engines whose constants are known, and what would have happened can be simulated.
#include "lab/forecast/forecast.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <span>
#include <sstream>
#include <vector>

#include "lab/engine/words.hpp"
#include "lab/plan/traffic.hpp"
#include "metrics/compare/statistics/intervals.hpp"
#include "tests/bench/plan/workloads.hpp"
#include "tests/draws.hpp"
#include "tests/unit/lab/forecast/made_log.hpp"

namespace weir::lab::forecast {
namespace {

double seconds(engine::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

MATCHER_P2(Within, share, value, "") {
  *result_listener << "is " << arg << ", " << 100 * (arg / value - 1) << " % off";
  return std::abs(arg - value) <= share * value;
}

/// A log of the conversation trace before four replicas, of which the last runs at half speed.
class LogOfSimulation : public testing::TestWithParam<std::uint64_t> {
 protected:
  LogOfSimulation() {
    setup_.engines = plan::four_engines(0.5);
    setup_.seed = GetParam();
    setup_.engine_seed = GetParam() * 101;
    setup_.probes = false;
    setup_.endless_queue = true;
    requests_ = plan::requests_of(plan::read_trace_file(WEIR_TEST_DATA "/traces/conv.csv"), 1600, GetParam());
    rate_ = 0.6 * plan::capacity_of(setup_.engines, requests_);
    std::istringstream in(log_of(requests_, serve(4, config::Policy::least_requests)));
    log_ = read_served_log(in, {});
    settings_.limits = {.max_batch = 64, .kv_tokens = 60'000, .prefill_budget = 2048};
  }

  plan::Results serve(std::size_t replicas, config::Policy policy) {
    plan::Setup setup = setup_;
    setup.engines.resize(replicas);
    setup.policy = policy;
    return plan::Simulation(setup).serve(requests_, rate_);
  }

  Latencies truth(std::size_t replicas, config::Policy policy) {
    std::vector<double> ttft, tpot;
    for (const auto& served : serve(replicas, policy).requests) {
      if (served.ttft) ttft.push_back(*served.ttft);
      if (served.tpot) tpot.push_back(*served.tpot);
    }
    return latencies_of(std::move(ttft), std::move(tpot));
  }

  plan::Setup setup_;
  std::vector<plan::TracedRequest> requests_;
  double rate_ = 0;
  ServedLog log_;
  ForecastSettings settings_;
};

TEST_P(LogOfSimulation, GivesTheConstantsOfEachEngine) {
  const auto fits = fit_engines(log_, settings_.limits.prefill_budget);
  ASSERT_EQ(fits.size(), 4);
  for (std::size_t r = 0; r < fits.size(); ++r) {
    SCOPED_TRACE("replica " + std::to_string(r));
    const engine::EngineSettings& engine = setup_.engines[r];
    const EngineFit& fit = fits[r];
    EXPECT_FALSE(fit.pooled);
    EXPECT_THAT(fit.base, Within(0.10, seconds(engine.step_base) / engine.speed));
    EXPECT_THAT(fit.prefill, Within(0.10, seconds(engine.per_prefill_token) / engine.speed));
    // Many sequences have many resident tokens, so the two are told apart less well.
    EXPECT_THAT(fit.sequence, Within(0.15, seconds(engine.per_decode_sequence) / engine.speed));
    EXPECT_THAT(fit.kv, Within(0.15, seconds(engine.per_kv_token) / engine.speed));
    EXPECT_LT(fit.overhead, 0.005);
  }
}

/// A tenth of the answers came at once, as where something on the way buffers them, or an engine's parser does.
TEST_P(LogOfSimulation, GivesTheConstantsWhereSomeAnswersCameAtOnceToo) {
  for (std::size_t i = 0; i < log_.requests.size(); i += 10) {
    auto& request = log_.requests[i];
    if (!request.ttft || !request.tpot) continue;
    *request.ttft += *request.tpot * static_cast<double>(request.output_tokens - 1);
    request.tpot = i % 20 == 0 ? 1e-6 : 1e-9;
  }
  const auto fits = fit_engines(log_, settings_.limits.prefill_budget);
  ASSERT_EQ(fits.size(), 4);
  for (std::size_t r = 0; r < fits.size(); ++r) {
    SCOPED_TRACE("replica " + std::to_string(r));
    const engine::EngineSettings& engine = setup_.engines[r];
    EXPECT_THAT(fits[r].base, Within(0.25, seconds(engine.step_base) / engine.speed));
    EXPECT_THAT(fits[r].prefill, Within(0.25, seconds(engine.per_prefill_token) / engine.speed));
  }
}

TEST_P(LogOfSimulation, IsPredictedAndSoIsOneReplicaLessAndAnotherPolicy) {
  using enum config::Policy;
  // Round robin would give the slow replica more than it can do. How long a queue that only grows is at the end is a
  // matter of a few percent of the replica's speed.
  const std::vector<Scenario> scenarios{{4, least_queued_tokens}, {3, least_queued_tokens}, {4, least_requests}};
  const Forecast made = forecast(log_, scenarios, settings_);
  for (const Prediction& prediction : made.predictions) {
    SCOPED_TRACE(prediction.replica);
    EXPECT_THAT(prediction.simulated.ttft_p50, Within(0.15, prediction.logged.ttft_p50));
    EXPECT_THAT(prediction.simulated.ttft_p99, Within(0.15, prediction.logged.ttft_p99));
    EXPECT_THAT(prediction.simulated.tpot_p50, Within(0.15, prediction.logged.tpot_p50));
  }
  ASSERT_EQ(made.outcomes.size(), scenarios.size());
  for (const Outcome& outcome : made.outcomes) {
    SCOPED_TRACE(testing::Message() << outcome.scenario.replicas << " replicas, policy "
                                    << static_cast<int>(outcome.scenario.policy));
    const Latencies real = truth(outcome.scenario.replicas, outcome.scenario.policy);
    EXPECT_THAT(outcome.latencies.ttft_p50, Within(0.15, real.ttft_p50));
    EXPECT_THAT(outcome.latencies.ttft_p99, Within(0.15, real.ttft_p99));
    EXPECT_THAT(outcome.latencies.tpot_p50, Within(0.15, real.tpot_p50));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, LogOfSimulation, testing::Range<std::uint64_t>(1, tests::draws(2, 5)));

/// Lines by hand. `more`, such as `,"e2e_s":1`, replaces members.
std::string line_at(double at, const std::string& more) {
  auto line =
      boost::json::parse(
          R"({"v":1,"api":"openai.chat","role":"primary","outcome":"ok","served":true,"pool":"chat","replica":"a",)"
          R"("prompt_tokens":100,"output_tokens":11,"queue_s":0,"ttft_s":0.1,"tpot_s":0.02,"e2e_s":0.3})")
          .as_object();
  line["time"] = wall_clock(at);
  const auto members = boost::json::parse('{' + more.substr(more.empty() ? 0 : 1) + '}');
  for (const auto& [key, value] : members.as_object()) line[key] = value;
  return boost::json::serialize(line) + "\n";
}

std::string refusal_of(const std::string& text, const ServedLogSettings& settings = {}) {
  std::istringstream in(text);
  try {
    read_served_log(in, settings);
  } catch (const std::invalid_argument& wrong) {
    return wrong.what();
  }
  return "";
}

TEST(ServedLog, SaysWhyALogCannotBeUsed) {
  using testing::HasSubstr;
  std::string few, one_moment, no_streams, two_pools;
  for (int i = 0; i < 200; ++i) {
    if (i < 199) few += line_at(i, "");
    one_moment += line_at(7, "");
    no_streams += line_at(i, R"(,"ttft_s":null,"tpot_s":null)");
    two_pools += line_at(i, i % 2 == 0 ? R"(,"pool":"batch")" : "");
  }
  EXPECT_THAT(refusal_of(few), HasSubstr("the log has 199 requests"));
  EXPECT_THAT(refusal_of(few), HasSubstr("at least 200 are needed"));
  EXPECT_THAT(refusal_of(few + line_at(200, R"(,"served":false)")), HasSubstr("Left out were 1"));
  EXPECT_THAT(refusal_of("{\"time\":1}\n{}\n"), HasSubstr("line 1: expected a line of weir's request log"));
  EXPECT_THAT(refusal_of(one_moment), HasSubstr("arrived at one moment"));
  EXPECT_THAT(refusal_of(no_streams), HasSubstr("only 0 lines have both ttft_s and tpot_s"));
  EXPECT_THAT(refusal_of(two_pools), HasSubstr("several pools (batch, chat); choose one with --pool"));
  EXPECT_THAT(refusal_of(two_pools, {.pool = "batch"}), HasSubstr("the log has 100 requests"));
  EXPECT_EQ(refusal_of(two_pools, {.pool = "none"}),
            "no request of the log is of the pool \"none\"; its pools are batch, chat");
  EXPECT_EQ(refusal_of(two_pools, {.most_requests = 10}),
            "the last 10 requests are too few; at least 200 are needed, or 0 for all (--requests)");
  EXPECT_EQ(refusal_of(few + line_at(199, "")), "");
}

TEST(ServedLog, SkipsCountsAndTellsDamagedLines) {
  std::string good, damaged;
  for (int i = 0; i < 300; ++i) {
    good += line_at(i, "");
    damaged += line_at(i, "");
    if (i == 100) damaged += "nonsense\n" + line_at(i, "").substr(0, 40) + "\n";
    if (i == 200) damaged += "{}\n";
  }
  std::istringstream of_good(good), of_damaged(damaged + line_at(300, "").substr(0, 40));
  const ServedLog whole = read_served_log(of_good, {}), read = read_served_log(of_damaged, {});
  EXPECT_EQ(read.requests.size(), whole.requests.size());
  EXPECT_EQ(read.trace, whole.trace);
  EXPECT_EQ(whole.damaged, 0u);
  EXPECT_EQ(whole.damaged_lines(), "");
  EXPECT_EQ(read.damaged, 3u);
  EXPECT_EQ(read.damaged_lines(), "3 lines cannot be read and are skipped, the first is line 102");
  EXPECT_EQ(read.left_out, 0u);

  std::istringstream of_lengths(good + line_at(301, R"(,"prompt_tokens":1e300)"));
  EXPECT_EQ(read_served_log(of_lengths, {}).left_out, 1u) << "no request has so long a prompt";
  EXPECT_THAT(refusal_of(line_at(1, "") + "nonsense\n"), testing::HasSubstr("1 line cannot be read and is skipped"));
}

TEST(ServedLog, TakesNoTimesThatNoRequestHas) {
  std::string text;
  for (int i = 0; i < 220; ++i) text += line_at(i, "");
  text += line_at(300, R"(,"e2e_s":1e308)") + line_at(301, R"(,"e2e_s":-1)");
  text += line_at(302, R"(,"ttft_s":1e308)") + line_at(303, R"(,"tpot_s":-1)") + line_at(304, R"(,"queue_s":1e308)");
  text += line_at(305, R"(,"queue_s":0.4)") + line_at(306, R"(,"queue_s":0.3)");
  std::istringstream in(text);
  const auto log = read_served_log(in, {});
  EXPECT_EQ(log.left_out, 2u);
  ASSERT_EQ(log.requests.size(), 225u);
  EXPECT_EQ(log.requests[220].ttft, std::nullopt);
  EXPECT_EQ(log.requests[221].tpot, std::nullopt);
  EXPECT_EQ(log.requests[222].sent, log.requests[222].arrived);
  EXPECT_EQ(log.requests[223].sent, log.requests[223].arrived) << "no request waits for longer than it takes";
  EXPECT_NEAR(log.requests[224].sent, log.requests[224].ended, 1e-6);
}

TEST(ServedLog, SaysWithoutObeyingThemWhichLettersItCannotRead) {
  EXPECT_EQ(refusal_of("\x1f\x8b\x08\n"), "the file is compressed: unpack it first, with gunzip");
  EXPECT_THAT(refusal_of("\x1b[2Jx\n{}\n"), testing::HasSubstr("got \"?[2Jx\""));
}

TEST(ServedLog, TakesATurnForTheChildOfTheOneBeforeIfThatHadEnded) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += line_at(i, "");
  text += line_at(300, R"(,"group":"00000000000000aa","turn":1)");
  text += line_at(310, R"(,"group":"00000000000000aa","turn":2)");
  text += line_at(310.1, R"(,"group":"00000000000000aa","turn":2)");
  std::istringstream in(text);
  const ServedLog log = read_served_log(in, {});
  EXPECT_EQ(log.conversations, 1);
  EXPECT_EQ(log.trace[201].parent, 200);
  EXPECT_EQ(log.trace[202].parent, std::nullopt) << "the turn before it was still under way";
  const auto requests = requests_of(log);
  EXPECT_NEAR(requests[201].think, 9.7, 1e-6);
  std::istringstream again(text);
  const ServedLog last = read_served_log(again, {.most_requests = 202});
  EXPECT_EQ(last.requests.size(), 202);
  EXPECT_NEAR(last.requests.back().arrived, 309.1, 1e-6) << "the last ones, from the first of them on";
}

TEST(Forecast, RefusesALogWhoseRequestsDoNotFitIntoTheCache) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += line_at(i, "");
  std::istringstream in(text);
  const ServedLog log = read_served_log(in, {});
  ForecastSettings settings;
  settings.limits.kv_tokens = 100;
  EXPECT_THROW(forecast(log, {{1}}, settings), std::invalid_argument);
}

TEST(ServedLog, CountsReplicasThatServedNothing) {
  using testing::ElementsAre;
  using testing::HasSubstr;
  std::string text = line_at(97, R"(,"replica":"gone")") + line_at(98, R"(,"replica":"z","served":false)");
  for (int i = 0; i < 200; ++i) text += line_at(100 + i, i == 7 ? R"(,"replica":"b")" : "");
  text += line_at(109.5, R"(,"replica":"c","served":false)") + line_at(109.6, R"(,"replica":null,"served":false)");
  const auto read = [&text](std::size_t replicas) {
    std::istringstream in(text);
    return read_served_log(in, {.most_requests = 200, .replicas = replicas});
  };
  const ServedLog log = read(0);
  EXPECT_THAT(log.replicas, ElementsAre("a", "b", "c")) << "c failed, but was there";
  EXPECT_THAT(log.before, ElementsAre("gone", "z"));
  EXPECT_EQ(log.left_out, 3);
  EXPECT_THAT(read(5).replicas, ElementsAre("a", "b", "c", "idle 1", "idle 2"));
  EXPECT_THAT(refusal_of(text, {.most_requests = 200, .replicas = 2}),
              HasSubstr("requests of 3 replicas, and not of 2"));
}

TEST(Forecast, HasAllReplicasOfTheLogAndPredictsThoseThatServed) {
  plan::Setup setup{.engines = plan::four_engines(), .probes = false, .endless_queue = true};
  const auto requests = plan::requests_of(plan::read_trace_file(WEIR_TEST_DATA "/traces/conv.csv"), 400, 1);
  const double rate = 0.4 * plan::capacity_of(setup.engines, requests);
  setup.engines.pop_back();
  std::istringstream in(log_of(requests, plan::Simulation(setup).serve(requests, rate)));
  const ServedLog log = read_served_log(in, {.replicas = 4});
  const ForecastSettings settings;
  const Forecast made = forecast(log, {{4}, {3}}, settings);
  ASSERT_EQ(made.fits.size(), 4);
  EXPECT_TRUE(made.fits[3].pooled);
  ASSERT_EQ(made.predictions.size(), 4) << "three replicas, and all";
  EXPECT_EQ(made.predictions.back().replica, "all");
  EXPECT_LT(made.outcomes[0].latencies.ttft_p99, made.outcomes[1].latencies.ttft_p99);
  const std::string report = experiment::as_text(report_of("requests.jsonl", log, settings, made), false);
  EXPECT_THAT(report,
              testing::HasSubstr("served none of these requests, and are taken to be as all the others: idle 1."));
  EXPECT_THAT(report, testing::HasSubstr("What would have happened"));
}

TEST(HitTokens, AreWhatAllCachedTokensHaveInCommonIfEnoughOfThemDiffer) {
  ServedLog log;
  const auto add = [&](std::uint64_t cached) { log.requests.emplace_back().cached_tokens = cached; };
  EXPECT_EQ(hit_tokens_of(log), 16u);
  for (std::uint64_t blocks = 1; blocks <= 7; ++blocks) add(64 * blocks), add(64 * blocks), add(0);
  EXPECT_EQ(hit_tokens_of(log), 16u) << "seven different ones may all be even by chance";
  add(64 * 9);
  EXPECT_EQ(hit_tokens_of(log), 64u);
  add(64 * 9 + 16);
  EXPECT_EQ(hit_tokens_of(log), 16u);
  add(1001);
  EXPECT_EQ(hit_tokens_of(log), 16u) << "an engine that compares tokens";
}

TEST(HitTokens, AreThoseOfTheSimulatedEngines) {
  for (const std::uint64_t tokens : {16U, 256U}) EXPECT_EQ(settings_of({}, {}, true, tokens).hit_tokens, tokens);
}

/// Conversations with one of eight system prompts, before four replicas with prefix caches, whose blocks have 128
/// tokens for every second seed.
class LogOfConversations : public testing::TestWithParam<std::uint64_t> {
 protected:
  LogOfConversations() : workload_(plan::make_workload(plan::Kind::conversations, GetParam(), "")) {
    settings_.limits.max_batch = workload_.engines.front().max_batch;
    settings_.limits.kv_tokens = workload_.engines.front().kv_tokens;
    settings_.limits.prefill_budget = workload_.engines.front().prefill_budget;
    for (auto& engine : workload_.engines) engine.hit_tokens = hit_tokens_;
  }
  plan::Results serve(const Scenario& scenario) const {
    plan::Setup setup;
    setup.seed = GetParam();
    setup.engine_seed = GetParam() * 101;
    setup.probes = false;
    setup.endless_queue = setup.kv_tokens_known = true;
    setup.policy = scenario.policy;
    setup.prefix_aware = scenario.prefix_aware;
    plan::Workload workload = workload_;
    workload.engines.resize(scenario.replicas);
    return plan::serve(workload, setup, 0.55);
  }
  ServedLog log_with(bool prefixes) const {
    std::istringstream in(log_of(workload_.requests, serve({4, config::Policy::least_queued_tokens, true}), prefixes));
    return read_served_log(in, {});
  }

  const std::uint64_t hit_tokens_ = GetParam() % 2 == 0 ? 128 : engine::block_tokens;
  plan::Workload workload_;
  ForecastSettings settings_;
};

TEST_P(LogOfConversations, WithKeysIsPredictedAndSoIsWhatWouldHaveHappened) {
  using enum config::Policy;
  const ServedLog log = log_with(true);
  EXPECT_EQ(log.facts.keyed, log.requests.size());
  EXPECT_GT(log.conversations, 50);
  EXPECT_EQ(hit_tokens_of(log), hit_tokens_);
  const Forecast made =
      forecast(log, {{4, least_queued_tokens, true}, {3, least_queued_tokens, true}, {4, least_requests}}, settings_);
  EXPECT_EQ(made.hit_tokens, hit_tokens_);
  EXPECT_LT(log.facts.unexplained(), 0.01);
  EXPECT_EQ(log.facts.warning(), "");
  for (const Prediction& one : made.predictions) {
    EXPECT_THAT(static_cast<double>(one.simulated_cached), Within(0.05, static_cast<double>(one.logged_cached)));
    EXPECT_THAT(one.simulated.ttft_p50, Within(0.15, one.logged.ttft_p50)) << one.replica;
  }
  for (const Outcome& outcome : made.outcomes) {
    SCOPED_TRACE(testing::Message() << outcome.scenario.replicas << " replicas, policy "
                                    << static_cast<int>(outcome.scenario.policy));
    std::vector<double> ttft, tpot;
    const auto real = serve(outcome.scenario);
    double computed = 0;
    for (const auto& served : real.requests) {
      if (served.ttft) ttft.push_back(*served.ttft);
      if (served.tpot) tpot.push_back(*served.tpot);
    }
    for (const std::uint64_t tokens : real.prefilled) computed += static_cast<double>(tokens);
    const Latencies truth = latencies_of(std::move(ttft), std::move(tpot));
    EXPECT_THAT(outcome.computed_tokens, Within(0.10, computed));
    EXPECT_THAT(outcome.latencies.ttft_p50, Within(0.15, truth.ttft_p50));
    EXPECT_THAT(outcome.latencies.ttft_p90, Within(0.15, truth.ttft_p90));
    EXPECT_THAT(outcome.latencies.ttft_p99, Within(0.2, truth.ttft_p99)) << "a p99 of some thousand varies so much";
    EXPECT_THAT(outcome.latencies.tpot_p50, Within(0.15, truth.tpot_p50));
  }
}

TEST_P(LogOfConversations, WithoutKeysWarns) {
  const ServedLog log = log_with(false);
  EXPECT_EQ(log.facts.keyed, 0);
  const Forecast made = forecast(log, {{4, config::Policy::least_queued_tokens, true}}, settings_);
  EXPECT_GT(log.facts.unexplained(), 0.05);
  EXPECT_THAT(log.facts.warning(), testing::HasSubstr("[log] prefixes = true"));
  const std::string report = experiment::as_text(report_of("requests.jsonl", log, settings_, made), false);
  EXPECT_THAT(report, testing::HasSubstr("WARNING: "));
  EXPECT_THAT(report, testing::HasSubstr("The log has no keys of prompts"));
}

INSTANTIATE_TEST_SUITE_P(Seeds, LogOfConversations, testing::Range<std::uint64_t>(1, tests::draws(2, 4)));

TEST(Interval, HoldsItsEstimateAndIsUnknownOfTooFewValues) {
  engine::Random random(1);
  for (const std::size_t count : {40u, 53u, 200u}) {
    std::vector<double> values(count);
    for (double& value : values) value = random.exponential();
    for (const double q : {0.5, 0.99}) {
      const Interval interval = interval_of(std::vector<std::vector<double>>{values}, q);
      std::vector<double> copy = values;
      const double estimate = metrics::compare::statistics::quantile(std::span(copy), q);
      EXPECT_LT(interval.low, estimate);
      EXPECT_LT(estimate, interval.high);
    }
  }
  EXPECT_TRUE(std::isnan(interval_of(std::vector<std::vector<double>>{std::vector<double>(39, 1.0)}, 0.5).low));
  EXPECT_NEAR(interval_of(std::vector<std::vector<double>>{std::vector<double>(40, 3.0)}, 0.5).low, 3, 1e-9)
      << "all alike";
  // Runs that are alike in themselves, and differ.
  const std::vector<std::vector<double>> runs{std::vector<double>(40, 2.0), std::vector<double>(40, 4.0)};
  const Interval apart = interval_of(runs, 0.5);
  EXPECT_LT(apart.low, 2);
  EXPECT_GT(apart.high, 4);
}

/// Times in a queue (M/M/1, half of what it can do), of which neighbours depend on each other. Their distribution is
/// known: exponential.
TEST(Interval, HoldsTheTrueQuantileAsOftenAsItSays) {
  const int logs = static_cast<int>(tests::draws(120, 200));
  for (const double q : {0.5, 0.9, 0.99}) {
    engine::Random random(7);
    const double truth = -2 * std::log(1 - q);
    int held = 0;
    for (int n = 0; n < logs; ++n) {
      std::vector<double> times(2000);
      double wait = random.uniform() < 0.5 ? 0 : 2 * random.exponential();
      for (double& time : times) {
        time = wait + random.exponential();
        wait = std::max(0.0, time - 2 * random.exponential());
      }
      const Interval interval = interval_of(std::vector<std::vector<double>>{times}, q);
      held += interval.low <= truth && truth <= interval.high ? 1 : 0;
    }
    // The slowest of 2,000 come in a few bursts, which the draws take for less rare than they are.
    EXPECT_GE(held, (q < 0.99 ? 0.82 : 0.72) * logs) << q;
    EXPECT_LE(held, 0.96 * logs) << q;
  }
}

TEST(Forecast, OfAFifthOfTheLoadIsFasterAndIsTheSameForTheSameSeed) {
  plan::Setup setup{.engines = plan::four_engines(), .probes = false, .endless_queue = true};
  const auto requests = plan::requests_of(plan::read_trace_file(WEIR_TEST_DATA "/traces/conv.csv"), 600, 1);
  const double rate = 0.6 * plan::capacity_of(setup.engines, requests);
  std::istringstream in(log_of(requests, plan::Simulation(setup).serve(requests, rate)));
  const ServedLog log = read_served_log(in, {});
  ForecastSettings settings;
  const Forecast one = forecast(log, {{4}, {3}}, settings), same = forecast(log, {{4}, {3}}, settings);
  for (std::size_t s = 0; s < 2; ++s) {
    EXPECT_EQ(one.outcomes[s].ttft, same.outcomes[s].ttft);
    EXPECT_EQ(one.outcomes[s].ttft_p99, same.outcomes[s].ttft_p99);
    EXPECT_LT(one.outcomes[s].ttft_p99.low, one.outcomes[s].latencies.ttft_p99);
    EXPECT_GT(one.outcomes[s].ttft_p99.high, one.outcomes[s].latencies.ttft_p99);
  }
  EXPECT_GT(one.outcomes[1].latencies.ttft_p99, one.outcomes[0].latencies.ttft_p99) << "three have more to do each";
  // The figures are of all runs, which have other seeds.
  settings.runs = 1;
  std::vector<double> both = forecast(log, {{4}}, settings).outcomes[0].ttft;
  settings.seed = 2;
  const auto second = forecast(log, {{4}}, settings).outcomes[0].ttft;
  EXPECT_NE(both, second);
  both.insert(both.end(), second.begin(), second.end());
  std::ranges::sort(both);
  settings.seed = 1;
  settings.runs = 2;
  EXPECT_EQ(forecast(log, {{4}}, settings).outcomes[0].ttft, both);
  settings.speed = 0.2;
  const Forecast slow = forecast(log, {{4}}, settings);
  EXPECT_LT(slow.outcomes[0].latencies.ttft_p99, one.outcomes[0].latencies.ttft_p99) << "a fifth of the load";
}

}  // namespace
}  // namespace weir::lab::forecast

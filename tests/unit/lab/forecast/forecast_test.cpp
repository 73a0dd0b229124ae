// Logs made by the simulation have engines whose constants are known, and what would have happened can be simulated.
#include "lab/forecast/forecast.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "lab/forecast/report.hpp"
#include "lab/plan/traffic.hpp"
#include "metrics/compare/statistics/quantile.hpp"
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
    std::istringstream in(log_of(requests_, serve(4, config::Policy::least_queued_tokens)));
    log_ = read_served_log(in, {});
    settings_.limits = {.max_batch = 64, .kv_tokens = 60'000, .prefill_budget = 2048};
    settings_.resamples = 0;
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
    EXPECT_THAT(fit.kv, Within(0.10, seconds(engine.per_kv_token) / engine.speed));
    EXPECT_LT(fit.overhead, 0.005);
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

INSTANTIATE_TEST_SUITE_P(Seeds, LogOfSimulation, testing::Values(1, 2, 3));

/// Lines by hand.
std::string line_at(double at, const std::string& more) {
  return R"({"time":")" + wall_clock(at) +
         R"(","role":"primary","outcome":"ok","served":true,"pool":"chat","replica":"a","prompt_tokens":100,)" +
         R"("output_tokens":11,"queue_s":0,"ttft_s":0.1,"tpot_s":0.02,"e2e_s":0.3)" + more + "}\n";
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
  EXPECT_EQ(refusal_of(few + line_at(199, "")), "");
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
  EXPECT_EQ(log.requests[201].parent, 200);
  EXPECT_EQ(log.requests[202].parent, std::nullopt) << "the turn before it was still under way";
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

TEST(Forecast, HasIntervalsThatHoldWhatManyLogsGiveAndIsTheSameForTheSameSeed) {
  plan::Setup setup{.engines = plan::four_engines(), .probes = false, .endless_queue = true};
  const auto requests = plan::requests_of(plan::read_trace_file(WEIR_TEST_DATA "/traces/conv.csv"), 600, 1);
  const double rate = 0.6 * plan::capacity_of(setup.engines, requests);
  std::istringstream in(log_of(requests, plan::Simulation(setup).serve(requests, rate)));
  const ServedLog log = read_served_log(in, {});
  ForecastSettings settings;
  settings.resamples = 8;
  const Forecast one = forecast(log, {{4}, {3}}, settings), same = forecast(log, {{4}, {3}}, settings);
  for (std::size_t s = 0; s < 2; ++s) {
    const Outcome& outcome = one.outcomes[s];
    EXPECT_LT(outcome.ttft_p50.low, outcome.ttft_p50.high);
    EXPECT_LT(outcome.ttft_p99.low, outcome.ttft_p99.high);
    EXPECT_LT(outcome.tpot_p50.low, outcome.tpot_p50.high);
    EXPECT_EQ(outcome.ttft, same.outcomes[s].ttft);
    EXPECT_EQ(outcome.ttft_p99.high, same.outcomes[s].ttft_p99.high);
  }
  EXPECT_GT(one.outcomes[1].latencies.ttft_p99, one.outcomes[0].latencies.ttft_p99) << "three have more to do each";
  settings.speed = 0.2;
  settings.resamples = 0;
  const Forecast slow = forecast(log, {{4}}, settings);
  EXPECT_LT(slow.outcomes[0].latencies.ttft_p99, one.outcomes[0].latencies.ttft_p99) << "a fifth of the load";
  const experiment::Report report = report_of("requests.jsonl", log, settings, slow);
  EXPECT_THAT(experiment::as_text(report, false), testing::HasSubstr("What would have happened"));
}

}  // namespace
}  // namespace weir::lab::forecast

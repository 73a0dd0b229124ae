#include "lab/experiment/users.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "tests/unit/lab/load/made_results.hpp"

namespace weir::lab::experiment {
namespace {

using load::made_result;
using testing::HasSubstr;
using testing::Not;

TEST(Objective, IsReadFromThresholds) {
  const auto read = [](std::string_view text) { return std::get<Objective>(parse_objective(text)); };
  EXPECT_EQ(read("ttft=1,tpot=0.05").ttft, 1);
  EXPECT_EQ(read("ttft=1,tpot=0.05").tpot, 0.05);
  EXPECT_FALSE(read("ttft=1,tpot=0.05").e2e);
  EXPECT_EQ(read("ttft_client=2").ttft, 2);
  EXPECT_EQ(read("e2e=1e1").e2e, 10);
  for (const auto* const wrong : {"", "ttft", "ttft=", "ttft=1s", "ttft=-1", "ttft=0", "ttft=nan", "ttft=inf", "tft=1",
                                  "ttft=1,", ",ttft=1", "ttft=1,ttft=2", "ttft=1,ttft_client=2", "ttft=1;tpot=2"}) {
    const auto refused = parse_objective(wrong);
    ASSERT_TRUE(std::holds_alternative<config::Problem>(refused)) << wrong;
    EXPECT_THAT(std::get<config::Problem>(refused).text, HasSubstr("such as ttft=1,tpot=0.05")) << wrong;
    EXPECT_THAT(std::get<config::Problem>(refused).text, HasSubstr(wrong));
  }
}

TEST(Objective, IsMetByEveryThreshold) {
  const auto result = made_result({.ttft = 0.5, .gap = 0.02, .events = 11});  // Ends after 0.72 s.
  EXPECT_TRUE(meets({0.6, 0.03, 0.8}, result));
  EXPECT_FALSE(meets({0.4, 0.03, 0.8}, result));
  EXPECT_FALSE(meets({0.6, 0.01, 0.8}, result));
  EXPECT_FALSE(meets({0.6, 0.03, 0.7}, result));
  EXPECT_FALSE(meets({{}, {}, 1e6}, made_result({.outcome = "timeout"})));
  EXPECT_FALSE(meets({1e6, {}, {}}, made_result({.events = 0})));
  EXPECT_TRUE(meets({{}, 0.001, {}}, made_result({.events = 1}))) << "it has no TPOT";
}

TEST(Stage, CountsRequestsThatWereSentWhileAllUsersWereThere) {
  const std::vector<load::Result> results{made_result({.sent = 0.5}), made_result({.sent = 1.0, .ttft = 0.3}),
                                          made_result({.sent = 1.9}), made_result({.sent = 2.0})};
  const auto stage = stage_of(5, results, {1, 2}, Objective{0.2, {}, {}});
  EXPECT_EQ(stage.users, 5u);
  EXPECT_EQ(stage.requests.ok(), 2u);
  EXPECT_EQ(stage.good, 1u);
  EXPECT_EQ(stage.requests.ttft()->count, 2u);
  EXPECT_EQ(stage.attainment(), 0.5);
  EXPECT_EQ(stage.requests_per_minute(), 120);
  const auto early = stage_of(5, results, {1, 0.7}, {});
  EXPECT_EQ(early.seconds, 0) << "it ended before all users were there";
  EXPECT_EQ(early.requests.ok(), 0u);
  EXPECT_EQ(early.attainment(), std::nullopt);
}

TEST(Stage, CountsTokensWhenTheyCame) {
  // The tokens of the first come at 0.55, 0.65 ... 2.45: ten within the window, though it was sent before.
  const auto before = std::vector{made_result({.sent = 0, .ttft = 0.55, .gap = 0.1, .events = 20})};
  EXPECT_EQ(stage_of(2, before, {1, 2}, {}).requests.ok(), 0u);
  EXPECT_NEAR(stage_of(2, before, {1, 2}, {}).output_tokens_per_second(), 10, 1e-6);
  const auto drafted = std::vector{made_result({.sent = 1, .ttft = 0.1, .gap = 0.1, .events = 5, .output_tokens = 13})};
  EXPECT_NEAR(stage_of(1, drafted, {1, 2}, {}).output_tokens, 13, 1e-6) << "each token of an event";
}

TEST(Stage, CountsFailuresAsMissed) {
  std::vector<load::Result> results;
  for (const char* const outcome : {"unfinished", "http_503", "ok"}) {
    results.push_back(made_result({.sent = 1.5, .outcome = outcome}));
  }
  const auto stage = stage_of(5, results, {1, 2}, Objective{1, {}, {}});
  EXPECT_EQ(stage.requests.failed(), 1u);
  EXPECT_EQ(stage.requests.unfinished(), 1u);
  EXPECT_EQ(stage.failure, "http_503");
  EXPECT_EQ(stage.attainment(), 0.5) << "what its user ended is not judged";
}

/// Returns a stage of a minute with so many answers, the ends of which are `e2e` apart from their starts.
Stage judged(std::uint64_t users, std::uint64_t good, std::uint64_t ok, double e2e = 1) {
  Stage stage;
  stage.users = users;
  stage.seconds = 60;
  for (std::uint64_t i = 0; i < ok; ++i) stage.requests.add(made_result({.ttft = e2e, .gap = 0, .events = 1}));
  stage.good = good;
  return stage;
}

TEST(PeakUsers, IsTheHighestUpToWhichAllMeetTheObjective) {
  EXPECT_EQ(peak_users(std::vector{judged(50, 100, 100), judged(100, 99, 100), judged(200, 98, 100)}), 100u);
  EXPECT_EQ(peak_users(std::vector{judged(50, 98, 100), judged(100, 100, 100)}), std::nullopt);
  EXPECT_EQ(peak_users(std::vector{judged(50, 100, 100), judged(100, 0, 0)}), 50u);
  EXPECT_EQ(peak_users({}), std::nullopt);
}

TEST(PeakUsers, AreMeasuredOnceAllAreThere) {
  UsersSettings settings;
  settings.users = {5, 9};
  settings.load.ramp = 2;
  settings.duration = 10;
  PeakUsers users(settings);
  const auto points = users.points();
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].begins, "5 users");
  EXPECT_EQ(points[1].load.concurrency, 9u);
  EXPECT_EQ(points[1].load.requests, 0u);
  EXPECT_EQ(points[1].load.duration, 14) << "the last of nine starts after 4 s";
  EXPECT_NE(points[0].load.workload.seed, points[1].load.workload.seed);
  const auto seconds_of = [&](double lasted, double sent) {
    Ran ran;
    ran.results = {made_result({.sent = 100 + sent})};
    ran.begun = 100;
    ran.ended = 100 + lasted;
    ran.own_delay = "slow";
    users.take(points[1], std::move(ran));
    const auto report = boost::json::parse(users.report(false).json);
    const auto& stage = report.at("users").as_array().back();
    EXPECT_EQ(stage.at("own_delay"), "slow");
    return std::pair(stage.at("seconds").to_number<double>(), stage.at("requests_ok").to_number<int>());
  };
  EXPECT_EQ(seconds_of(14.5, 3), std::pair(10.0, 0)) << "the ramp is not in it";
  EXPECT_EQ(seconds_of(14.5, 5), std::pair(10.0, 1));
  EXPECT_EQ(seconds_of(9, 5), std::pair(5.0, 1)) << "its user ended it";
  Ran none;
  none.problem = "cannot resolve x";
  EXPECT_THROW(users.take(points[0], none), std::runtime_error);
}

UsersSettings with_objective() {
  UsersSettings settings;
  settings.objective = Objective{1, 0.05, {}};
  return settings;
}

TEST(UsersReport, HasTheKeysThatProgramsRead) {
  std::vector stages{judged(50, 100, 100, 2), judged(100, 10, 100)};
  stages[0].output_tokens = 600;
  for (auto [outcome, count] : {std::pair("reset", 4), std::pair("unfinished", 7)}) {
    for (int i = 0; i < count; ++i) stages[1].requests.add(made_result({.outcome = outcome}));
  }
  stages[0].own_delay = "this tool computed for 99 % of the time.";
  const auto json = boost::json::parse(report_of(with_objective(), stages, true).json);
  const auto &first = json.at("users").at(0), &second = json.at("users").at(1);
  EXPECT_EQ(first.at("users"), 50);
  EXPECT_EQ(first.at("output_tokens_per_second").to_number<double>(), 10);
  EXPECT_EQ(first.at("e2e_s").at("p50"), 2.0);
  EXPECT_EQ(first.at("failed"), 0);
  EXPECT_EQ(second.at("failed"), 4);
  EXPECT_EQ(second.at("unfinished"), 7);
  EXPECT_EQ(first.at("own_delay"), "this tool computed for 99 % of the time.");
  EXPECT_TRUE(second.at("own_delay").is_null());
  EXPECT_EQ(json.at("peak_users"), 50);
  EXPECT_EQ(json.at("interrupted"), true);
  const auto unjudged = boost::json::parse(report_of({}, stages, false).json);
  EXPECT_TRUE(unjudged.at("peak_users").is_null());
  EXPECT_TRUE(unjudged.at("users").at(0).at("slo_attainment").is_null());
  const auto text = report_of({}, stages, false).page.markdown();
  EXPECT_THAT(text, HasSubstr("100 users: 7 requests had no end yet when the load was ended"));
  EXPECT_THAT(text, HasSubstr("50 users: this tool computed for 99 %"));
  EXPECT_THAT(text, Not(HasSubstr("50 users: 0")));
}

TEST(UsersReport, SaysHowManyUsersTheServiceBears) {
  const auto said = [](const UsersSettings& settings, const std::vector<Stage>& stages) {
    return report_of(settings, stages, false).page.markdown();
  };
  EXPECT_THAT(said(with_objective(), {judged(50, 100, 100), judged(100, 10, 100)}),
              HasSubstr("50 users at once is the highest number that still meets"));
  EXPECT_THAT(said(with_objective(), {judged(50, 100, 100)}), HasSubstr("More were not tried."));
  EXPECT_THAT(said(with_objective(), {judged(50, 1, 100)}), HasSubstr("No number of users meets"));
  EXPECT_THAT(said({}, {judged(50, 1, 100)}), Not(HasSubstr("meets"))) << "without an objective";
  EXPECT_THAT(said(with_objective(), {judged(50, 20, 20)}), HasSubstr("a longer --duration gives more"));
}

TEST(UsersReport, WithoutFiguresIsThere) {
  Stage never;
  never.users = 3;
  const auto report = report_of({}, std::vector{never}, true);
  EXPECT_THAT(as_text(report, false), HasSubstr("the load was ended before all of them were there"));
  EXPECT_TRUE(boost::json::parse(report.json).at("users").at(0).at("e2e_s").is_null());
  EXPECT_FALSE(report.whole);
  EXPECT_THAT(report.notes, testing::ElementsAre("nothing was measured; see the report for why"));
}

}  // namespace
}  // namespace weir::lab::experiment

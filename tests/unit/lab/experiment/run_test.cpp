#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <csignal>
#include <set>
#include <stdexcept>

#include "lab/experiment/run.hpp"
#include "tests/golden.hpp"
#include "tests/unit/lab/load/made_results.hpp"

namespace weir::lab::experiment {
namespace {

using testing::ElementsAre;

/// A table of three loads at "1", "2" and "3", which keeps what it takes.
class Loads final : public Table {
 public:
  std::vector<Point> points() const override {
    std::vector<Point> points;
    for (const char* const url : {"1", "2", "3"}) {
      Point& point = points.emplace_back();
      point.begins = point.load.url = url;
    }
    points[1].warm_up = points[1].load;
    points[1].warm_up->url = "warm-up";
    return points;
  }
  void take(const Point& point, Ran ran) override {
    took.push_back(point.load.url + (ran.cut ? " cut" : ran.problem) + ' ' + std::to_string(ran.results.size()));
    last = std::move(ran);
  }
  Report report(bool) const override { return {}; }

  std::vector<std::string> took;
  Ran last;
};

struct Went {
  bool whole = false;
  std::vector<std::string> loads, begun, results;
  Loads table;
};

/// Runs the three, with `during` in each load.
Went run_with(const std::function<void(const std::string& url, load::Measured&)>& during) {
  Went told;
  const load::Interrupt interrupt;
  told.whole = run(
      told.table, interrupt, [&](const Point& point) { told.begun.push_back(point.begins); },
      [&](const Point& point, const load::Result&) { told.results.push_back(point.load.url); },
      [&](const load::LoadSettings& settings, const load::Interrupt&, const load::OnResult& on_result) {
        told.loads.push_back(settings.url);
        load::Measured measured;
        measured.report.add(load::made_result({}));
        if (on_result) on_result(load::made_result({}));
        during(settings.url, measured);
        return measured;
      });
  return told;
}

TEST(Run, RunsTheLoadsInTheirOrderAndTellsNoWarmUp) {
  const auto told = run_with([](const std::string& url, load::Measured& measured) {
    if (url == "3") measured.own.cpu_share = 0.99;
  });
  EXPECT_TRUE(told.whole);
  EXPECT_THAT(told.loads, ElementsAre("1", "warm-up", "2", "3"));
  EXPECT_THAT(told.begun, ElementsAre("1", "2", "3"));
  EXPECT_THAT(told.results, ElementsAre("1", "2", "3"));
  EXPECT_THAT(told.table.took, ElementsAre("1 1", "2 1", "3 1"));
  EXPECT_EQ(told.table.last.all.ok(), 1u);
  EXPECT_THAT(told.table.last.own_delay.value_or(""), testing::HasSubstr("computed for 99 %"));
  EXPECT_GE(told.table.last.ended, told.table.last.begun);
  EXPECT_GT(told.table.last.begun, 0);
}

TEST(Run, EndsWithTheLoadThatItsUserEnded) {
  for (const bool short_load : {false, true}) {  // A short load ends before it looks.
    const auto told = run_with([&](const std::string& url, load::Measured& measured) {
      if (url != "2") return;
      short_load ? void(std::raise(SIGINT)) : void(measured.interrupted = true);
    });
    EXPECT_FALSE(told.whole);
    EXPECT_THAT(told.loads, ElementsAre("1", "warm-up", "2"));
    EXPECT_THAT(told.table.took, ElementsAre("1 1", short_load ? "2 1" : "2 cut 1"));
  }
  const auto warming = run_with([](const std::string& url, load::Measured& m) { m.interrupted = url == "warm-up"; });
  EXPECT_THAT(warming.loads, ElementsAre("1", "warm-up"));
  EXPECT_THAT(warming.table.took, ElementsAre("1 1", "2 cut 0"));
  EXPECT_FALSE(run_with([](const std::string& url, load::Measured&) {
                 if (url == "3") std::raise(SIGTERM);
               }).whole)
      << "be it in the last";
}

TEST(Run, GoesOnBehindALoadThatCouldNotBeSent) {
  const auto told = run_with([](const std::string& url, load::Measured&) {
    if (url == "warm-up") throw std::runtime_error(" cannot resolve");
  });
  EXPECT_TRUE(told.whole);
  EXPECT_THAT(told.loads, ElementsAre("1", "warm-up", "3")) << "nothing is sent behind a warm-up that could not be";
  EXPECT_THAT(told.table.took, ElementsAre("1 1", "2 cannot resolve 0", "3 1"));
  EXPECT_THROW(run_with([](const std::string&, load::Measured&) { throw std::invalid_argument("a URL"); }),
               std::invalid_argument);
}

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
  const auto stage = stage_of(results, {1, 2}, Objective{0.2, {}, {}});
  EXPECT_EQ(stage.requests.ok(), 2u);
  EXPECT_EQ(stage.good, 1u);
  EXPECT_EQ(stage.requests.ttft()->count, 2u);
  EXPECT_EQ(stage.attainment(), 0.5);
  EXPECT_EQ(stage.requests_per_minute(), 120);
  const auto early = stage_of(results, {1, 0.7}, {});
  EXPECT_EQ(early.seconds, 0) << "it ended before all users were there";
  EXPECT_EQ(early.requests.ok(), 0u);
  EXPECT_EQ(early.attainment(), std::nullopt);
}

TEST(Stage, CountsTokensWhenTheyCame) {
  // The tokens of the first come at 0.55, 0.65 ... 2.45: ten within the window, though it was sent before.
  const auto before = std::vector{made_result({.sent = 0, .ttft = 0.55, .gap = 0.1, .events = 20})};
  EXPECT_EQ(stage_of(before, {1, 2}, {}).requests.ok(), 0u);
  EXPECT_NEAR(stage_of(before, {1, 2}, {}).output_tokens_per_second(), 10, 1e-6);
  const auto drafted = std::vector{made_result({.sent = 1, .ttft = 0.1, .gap = 0.1, .events = 5, .output_tokens = 13})};
  EXPECT_NEAR(stage_of(drafted, {1, 2}, {}).output_tokens, 13, 1e-6) << "each token of an event";
}

TEST(Stage, CountsFailuresAsMissed) {
  std::vector<load::Result> results;
  for (const char* const outcome : {"unfinished", "http_503", "ok"}) {
    results.push_back(made_result({.sent = 1.5, .outcome = outcome}));
  }
  const auto stage = stage_of(results, {1, 2}, Objective{1, {}, {}});
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

std::optional<std::uint64_t> peak_users(const std::vector<Stage>& stages) {
  const Stage* const peak = peak_of(stages);
  return peak ? std::optional(peak->users) : std::nullopt;
}

TEST(PeakUsers, IsTheHighestUpToWhichAllMeetTheObjective) {
  EXPECT_EQ(peak_users({judged(50, 100, 100), judged(100, 99, 100), judged(200, 98, 100)}), 100u);
  EXPECT_EQ(peak_users({judged(50, 98, 100), judged(100, 100, 100)}), std::nullopt);
  EXPECT_EQ(peak_users({judged(50, 100, 100), judged(100, 0, 0)}), 50u);
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

TEST(Rates, AreOpenLoadsMeasuredBehindTheirWarmUpByWhenRequestsWereDue) {
  UsersSettings settings;
  settings.rates = {0.5, 1, 8};
  settings.load.warm_up = 5;
  settings.load.requests = 60;
  settings.duration = 20;
  settings.objective = Objective{1, {}, {}};
  PeakUsers rates(settings);
  const auto points = rates.points();
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(points[0].begins, "0.5 requests a second");
  EXPECT_EQ(points[1].begins, "1 request a second");
  std::set<std::uint64_t> seeds;
  for (const auto& point : points) {
    EXPECT_EQ(point.load.requests, 0u);
    EXPECT_EQ(point.load.duration, 25);
    EXPECT_EQ(point.load.warm_up, 5);
    seeds.insert(point.load.workload.seed);
  }
  EXPECT_EQ(points[2].load.workload.rate, 8);
  EXPECT_EQ(seeds.size(), 3u);
  const auto take = [&](const Point& point, double ttft) {
    Ran ran;
    ran.begun = 100;
    ran.ended = 130;
    for (const double due : {104.9, 105.0, 124.9, 125.0}) {
      ran.results.push_back(made_result({.sent = due + 0.2, .ttft = ttft - 0.2, .gap = 0, .events = 1}));
      ran.results.back().due = load::moment(due);  // The request was sent late, and its latencies count from here.
    }
    rates.take(point, std::move(ran));
  };
  take(points[0], 0.3);
  take(points[1], 0.9);
  take(points[2], 1.1);
  const auto report = rates.report(false);
  const auto json = boost::json::parse(report.json);
  ASSERT_EQ(json.at("rates").as_array().size(), 3u);
  for (const auto& stage : json.at("rates").as_array()) {
    EXPECT_EQ(stage.at("seconds").to_number<double>(), 20);
    EXPECT_EQ(stage.at("requests_ok"), 2) << "those due within the time";
    EXPECT_EQ(stage.at("requests_per_minute").to_number<double>(), 6);
  }
  EXPECT_NEAR(json.at("rates").at(2).at("ttft_s").at("p50").to_number<double>(), 1.1, 1e-6);
  EXPECT_EQ(json.at("rates").at(2).at("rate").to_number<double>(), 8);
  EXPECT_EQ(json.at("peak_rate").to_number<double>(), 1);
  EXPECT_FALSE(json.as_object().contains("users"));
  const auto text = report.page.written(metrics::compare::report::Style::markdown);
  EXPECT_THAT(text, HasSubstr("1 request a second is the highest rate that still meets"));
  EXPECT_THAT(text, HasSubstr("| requests/s |"));
  EXPECT_THAT(text, HasSubstr("after a warm-up of 5s"));
  EXPECT_EQ(report.title, "Rates at http://127.0.0.1:8080");
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
  const auto text = report_of({}, stages, false).page.written(metrics::compare::report::Style::markdown);
  EXPECT_THAT(text, HasSubstr("100 users: 7 requests had no end yet when the load was ended"));
  EXPECT_THAT(text, HasSubstr("50 users: this tool computed for 99 %"));
  EXPECT_THAT(text, Not(HasSubstr("50 users: 0")));
}

TEST(UsersReport, ReadsAsItsGoldenFile) {
  const auto said = [](const UsersSettings& settings, const std::vector<Stage>& stages) {
    return report_of(settings, stages, false).page.written(metrics::compare::report::Style::markdown);
  };
  const auto usual = said(with_objective(), {judged(50, 100, 100), judged(100, 10, 100)});
  const auto beside = [&](const std::string& text) { return "\n====\n" + tests::lines_beside(text, usual); };
  tests::expect_golden("users.md", usual + beside(said(with_objective(), {judged(50, 100, 100)})) +
                                       beside(said(with_objective(), {judged(50, 1, 100)})) +
                                       beside(said({}, {judged(50, 1, 100)})) +
                                       beside(said(with_objective(), {judged(50, 20, 20)})));
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

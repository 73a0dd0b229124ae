#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/users/objective.hpp"
#include "lab/users/report.hpp"
#include "lab/users/stage.hpp"
#include "tests/unit/lab/load/made_results.hpp"

namespace weir::lab::users {
namespace {

using load::made_result;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

TEST(Objective, IsReadFromThresholds) {
  const auto read = parse_objective("ttft=1,tpot=0.05");
  ASSERT_TRUE(std::holds_alternative<Objective>(read));
  const auto& objective = std::get<Objective>(read);
  EXPECT_EQ(objective.ttft, 1);
  EXPECT_EQ(objective.tpot, 0.05);
  EXPECT_FALSE(objective.e2e);
  EXPECT_EQ(std::get<Objective>(parse_objective("ttft_client=2")).ttft, 2);
  EXPECT_EQ(std::get<Objective>(parse_objective("e2e=1e1")).e2e, 10);
}

TEST(Objective, OfAnotherFormIsRefusedWithASentence) {
  for (const auto* const wrong : {"", "ttft", "ttft=", "ttft=1s", "ttft=-1", "ttft=0", "ttft=nan", "ttft=inf", "tft=1",
                                  "ttft=1,", ",ttft=1", "ttft=1,ttft=2", "ttft=1,ttft_client=2", "ttft=1;tpot=2"}) {
    const auto read = parse_objective(wrong);
    ASSERT_TRUE(std::holds_alternative<config::Problem>(read)) << wrong;
    EXPECT_THAT(std::get<config::Problem>(read).text, HasSubstr("such as ttft=1,tpot=0.05")) << wrong;
    EXPECT_THAT(std::get<config::Problem>(read).text, HasSubstr(wrong));
  }
}

TEST(Objective, IsMetByEveryThreshold) {
  const auto result = made_result({.ttft = 0.5, .gap = 0.02, .events = 11});  // It ends after 0.72 s.
  EXPECT_TRUE(meets({0.6, 0.03, 0.8}, result));
  EXPECT_FALSE(meets({0.4, 0.03, 0.8}, result));
  EXPECT_FALSE(meets({0.6, 0.01, 0.8}, result));
  EXPECT_FALSE(meets({0.6, 0.03, 0.7}, result));
}

TEST(Objective, IsNotMetByAFailureNorWithoutAToken) {
  auto failed = made_result({});
  failed.outcome = "timeout";
  EXPECT_FALSE(meets({std::nullopt, std::nullopt, 1e6}, failed));
  EXPECT_FALSE(meets({1e6, std::nullopt, std::nullopt}, made_result({.events = 0})));
  EXPECT_TRUE(meets({std::nullopt, 0.001, std::nullopt}, made_result({.events = 1}))) << "it has no TPOT";
}

TEST(Stage, CountsRequestsThatWereSentWhileAllUsersWereThere) {
  const std::vector<load::Result> results{made_result({.sent = 0.5}), made_result({.sent = 1.0, .ttft = 0.3}),
                                          made_result({.sent = 1.9}), made_result({.sent = 2.0})};
  const auto stage = stage_of(5, results, {1, 2}, Objective{0.2, std::nullopt, std::nullopt});
  EXPECT_EQ(stage.users, 5u);
  EXPECT_EQ(stage.ok, 2u);
  EXPECT_EQ(stage.good, 1u);
  EXPECT_THAT(stage.ttft, SizeIs(2));
  EXPECT_EQ(stage.attainment(), 0.5);
  EXPECT_EQ(stage.requests_per_minute(), 120);
}

TEST(Stage, CountsTokensWhenTheyCame) {
  // The tokens of the first come at 0.55, 0.65 ... 2.45: ten within the window, though it was sent before.
  const auto stage =
      stage_of(2, std::vector{made_result({.sent = 0, .ttft = 0.55, .gap = 0.1, .events = 20})}, {1, 2}, {});
  EXPECT_EQ(stage.ok, 0u);
  EXPECT_NEAR(stage.output_tokens_per_second(), 10, 1e-6);
}

TEST(Stage, CountsEachTokenOfAnEvent) {
  const auto results = std::vector{made_result({.sent = 1, .ttft = 0.1, .gap = 0.1, .events = 5, .output_tokens = 13})};
  EXPECT_NEAR(stage_of(1, results, {1, 2}, {}).output_tokens, 13, 1e-6);
}

TEST(Stage, CountsFailuresAsMissed) {
  auto failed = made_result({.sent = 1.5});
  failed.outcome = "http_503";
  auto cut = made_result({.sent = 1.5});
  cut.outcome = "unfinished";
  const auto stage = stage_of(5, std::vector{failed, cut, made_result({.sent = 1.5})}, {1, 2}, Objective{1, {}, {}});
  EXPECT_EQ(stage.failed, 1u);
  EXPECT_EQ(stage.unfinished, 1u);
  EXPECT_EQ(stage.failure, "http_503");
  EXPECT_EQ(stage.attainment(), 0.5) << "what its user ended is not judged";
}

TEST(Stage, ThatEndedBeforeAllUsersWereThereHasNoFigures) {
  const auto stage = stage_of(5, std::vector{made_result({.sent = 0.5})}, {1, 0.7}, {});
  EXPECT_EQ(stage.seconds, 0);
  EXPECT_EQ(stage.ok, 0u);
  EXPECT_EQ(stage.attainment(), std::nullopt);
}

Stage judged(std::uint64_t users, std::uint64_t good, std::uint64_t ok) {
  Stage stage;
  stage.users = users;
  stage.seconds = 60;
  stage.ok = ok;
  stage.good = good;
  return stage;
}

TEST(PeakUsers, IsTheHighestUpToWhichAllMeetTheObjective) {
  EXPECT_EQ(peak_users(std::vector{judged(50, 100, 100), judged(100, 99, 100), judged(200, 98, 100)}), 100u);
  EXPECT_EQ(peak_users(std::vector{judged(50, 98, 100), judged(100, 100, 100)}), std::nullopt);
  EXPECT_EQ(peak_users(std::vector{judged(50, 100, 100), judged(100, 0, 0)}), 50u);
  EXPECT_EQ(peak_users({}), std::nullopt);
}

TEST(UsersReport, HasTheKeysThatProgramsRead) {
  Users users{{judged(50, 100, 100), judged(100, 10, 100)}, 50, false};
  users.stages[0].e2e = {1, 2, 3};
  users.stages[0].output_tokens = 600;
  users.stages[1].failed = 4;
  UsersSettings settings;
  settings.objective = Objective{1, 0.05, {}};
  const auto json = boost::json::value(as_json(users, settings));
  const auto& first = json.at("users").at(0);
  EXPECT_EQ(first.at("users"), 50);
  EXPECT_EQ(first.at("output_tokens_per_second").to_number<double>(), 10);
  EXPECT_EQ(first.at("e2e_s").at("p50"), 2.0);
  EXPECT_EQ(first.at("failed"), 0);
  EXPECT_EQ(json.at("users").at(1).at("failed"), 4);
  EXPECT_EQ(json.at("peak_users"), 50);
}

TEST(UsersReport, SaysHowManyUsersTheServiceBears) {
  UsersSettings settings;
  settings.objective = Objective{1, 0.05, {}};
  const Users found{{judged(50, 100, 100), judged(100, 10, 100)}, 50, false};
  EXPECT_THAT(document_of(found, settings).markdown(),
              HasSubstr("50 users at once is the highest number that still meets"));
  const Users all{{judged(50, 100, 100)}, 50, false};
  EXPECT_THAT(document_of(all, settings).markdown(), HasSubstr("More were not tried."));
  const Users none{{judged(50, 1, 100)}, {}, false};
  EXPECT_THAT(document_of(none, settings).markdown(), HasSubstr("No number of users meets"));
  EXPECT_THAT(document_of(none, {}).markdown(), Not(HasSubstr("meets"))) << "without an objective";
  const Users few{{judged(50, 20, 20)}, 50, false};
  EXPECT_THAT(document_of(few, settings).markdown(), HasSubstr("a longer --duration gives more"));
}

TEST(UsersReport, TellsWhereTheToolItselfWasTooSlow) {
  Users users{{judged(50, 100, 100), judged(60, 100, 100)}, 50, false};
  users.stages[0].own_delay = "this tool computed for 99 % of the time.";
  EXPECT_THAT(document_of(users, {}).markdown(), HasSubstr("50 users: this tool computed for 99 %"));
  const auto json = boost::json::value(as_json(users, {}));
  EXPECT_EQ(json.at("users").at(0).at("own_delay"), "this tool computed for 99 % of the time.");
  EXPECT_TRUE(json.at("users").at(1).at("own_delay").is_null());
}

TEST(UsersReport, TellsWhatHadNoEnd) {
  Users users{{judged(50, 100, 100), judged(60, 100, 100)}, 50, true};
  users.stages[1].unfinished = 7;
  const auto text = document_of(users, {}).markdown();
  EXPECT_THAT(text, HasSubstr("60 users: 7 requests had no end yet when the load was ended"));
  EXPECT_THAT(text, Not(HasSubstr("50 users: 0")));
  EXPECT_EQ(as_json(users, {}).at("users").at(1).at("unfinished"), 7);
}

TEST(UsersReport, WithoutFiguresIsThere) {
  Stage never;
  never.users = 3;
  const Users users{{never}, {}, true};
  EXPECT_THAT(as_text(users, {}, false), HasSubstr("the load was ended before all of them were there"));
  EXPECT_TRUE(as_json(users, {}).at("users").at(0).at("e2e_s").is_null());
}

}  // namespace
}  // namespace weir::lab::users

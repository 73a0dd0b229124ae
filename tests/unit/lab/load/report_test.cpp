#include "lab/load/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <functional>
#include <sstream>

#include "lab/load/course.hpp"
#include "lab/load/ended_early.hpp"
#include "tests/unit/lab/load/made_results.hpp"

namespace weir::lab::load {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Returns the object of which `write` writes the members.
boost::json::value members_of(const std::function<void(JsonWriter&)>& write) {
  JsonWriter json;
  write(json.open('{'));
  return boost::json::parse(json.close('}').written());
}

/// An open load at a server that answers in 100 ms. Nothing is sent while the tool stands still, from 1 s to 3 s.
TEST(Tally, CountsAnOpenLoadFromWhenItsRequestsWereDue) {
  Tally honest, closed;
  for (int i = 0; i < 400; ++i) {
    const double due = i / 100.0;
    const double sent = due > 1 && due < 3 ? 3 : due;
    Result result = made_result({.sent = sent, .ttft = 0.05, .gap = 0.05, .events = 1});
    closed.add(result);
    result.due = moment(due);
    honest.add(result);
  }
  const auto told = members_of([&](JsonWriter& json) { honest.write_members(json, 1); });
  const auto hidden = members_of([&](JsonWriter& json) { closed.write_members(json, 1); });
  const auto of = [](const boost::json::value& all, const char* what, const char* which) {
    return all.at(what).at(which).to_number<double>();
  };
  EXPECT_NEAR(of(hidden, "e2e_s", "p99"), 0.1, 1e-3) << "from the sending on, no stall can be seen";
  EXPECT_TRUE(hidden.at("late_s").is_null());
  EXPECT_NEAR(of(told, "e2e_s", "max"), 0.1 + 1.99, 1e-3);
  EXPECT_NEAR(of(told, "ttft_s", "max"), 0.05 + 1.99, 1e-3);
  EXPECT_NEAR(of(told, "late_s", "max"), 1.99, 1e-3);
  EXPECT_NEAR(of(told, "late_s", "p50"), 0, 1e-3);
  // The difference between the two is the lateness and nothing else.
  EXPECT_NEAR(of(told, "e2e_s", "mean"), of(hidden, "e2e_s", "mean") + of(told, "late_s", "mean"), 1e-4);
  std::ostringstream table;
  honest.print(table, 1);
  EXPECT_THAT(table.str(), HasSubstr("sent late"));
  std::ostringstream other;
  closed.print(other, 1);
  EXPECT_THAT(other.str(), Not(HasSubstr("sent late")));
}

TEST(Distribution, GivesP99OnlyFromAHundredValuesOn) {
  EXPECT_FALSE(distribution({}));
  std::vector<float> values;
  for (int i = 1; i <= 99; ++i) values.push_back(static_cast<float>(i));
  EXPECT_FALSE(distribution(values)->p99);
  values.push_back(100);
  const auto d = distribution(values);
  EXPECT_DOUBLE_EQ(d->mean, 50.5);
  EXPECT_DOUBLE_EQ(d->p50, 50.5);
  EXPECT_NEAR(d->p90, 90.1, 1e-6);
  EXPECT_NEAR(d->p95, 95.05, 1e-6);
  EXPECT_NEAR(d->p99.value(), 99.01, 1e-6);
  EXPECT_DOUBLE_EQ(d->max, 100);
}

TEST(Report, FailuresAreCountedAndStayOutOfLatencies) {
  Report report;
  for (const Made& made :
       {Made{.gap = 0.02, .events = 10, .replica = "gpu0"},
        Made{.sent = 1, .gap = 0.04, .events = 10, .replica = "gpu1"},
        Made{.gap = 1, .events = 3, .outcome = "truncated", .replica = "gpu0"},
        Made{.events = 0, .outcome = "http_503"}, Made{.gap = 0.5, .events = 5, .outcome = "unfinished"}}) {
    report.add(made_result(made));
  }
  EXPECT_EQ(report.all.ok(), 2u);
  EXPECT_EQ(report.all.failed(), 2u);
  EXPECT_EQ(report.all.unfinished(), 1u);
  EXPECT_EQ(report.all.output_tokens(), 28u);
  const auto json = members_of([&](JsonWriter& out) { report.write_members(out); });
  EXPECT_EQ(json.at("errors"), boost::json::parse(R"({"http_503":1,"truncated":1})"));
  EXPECT_EQ(json.at("itl_s").at("count"), 18);
  EXPECT_NEAR(json.at("ttft_s").at("mean").as_double(), 0.1, 1e-6);
  EXPECT_NEAR(json.at("tpot_s").at("mean").as_double(), 0.03, 1e-6);
  EXPECT_NEAR(json.at("elapsed_s").as_double(), 3.1, 1e-9);
  EXPECT_NEAR(json.at("output_tokens_per_second").as_double(), 28 / 3.1, 1e-6);
  EXPECT_NEAR(json.at("total_tokens_per_second").as_double(), (28 + 4 * 100) / 3.1, 1e-6);
  EXPECT_TRUE(json.at("ttft_s").at("p99").is_null());
  EXPECT_EQ(json.at("replicas").as_object().size(), 2u);
  EXPECT_NEAR(json.at("replicas").at("gpu1").at("itl_s").at("p50").as_double(), 0.04, 1e-6);
}

TEST(Report, TellsTheLengthsThatCameBesideThoseAskedFor) {
  Tally tally;
  for (const std::uint64_t asked : {20u, 40u}) {
    Result result = made_result({.events = asked - 10, .prompt_tokens = 200, .output_tokens = asked - 5});
    result.output_target = asked;
    result.prompt_target = 180;
    tally.add(result);
  }
  std::ostringstream table;
  tally.print(table, 1);
  EXPECT_THAT(table.str(), HasSubstr("Lengths    prompts of 200.0 tokens, 180.0 asked for; answers of 25.0, at most "
                                     "30.0 asked for"));
  EXPECT_THAT(table.str(), HasSubstr("(50 tokens)"));
  tally.add(made_result({.events = 7, .outcome = "timeout"}));
  std::ostringstream with_failed;
  tally.print(with_failed, 1);
  EXPECT_THAT(with_failed.str(), HasSubstr("answers of 25.0, at most 30.0")) << "a failed one has no length";
  EXPECT_THAT(with_failed.str(), HasSubstr("(57 tokens, 7 of them of requests that did not succeed)"));
  const auto told = members_of([&](JsonWriter& json) { tally.write_members(json, 1); });
  EXPECT_EQ(told.at("output_tokens_mean").to_number<double>(), 25);
  EXPECT_EQ(told.at("output_tokens_asked_mean").to_number<double>(), 30);
  EXPECT_EQ(told.at("prompt_tokens_mean").to_number<double>(), 200);
  EXPECT_EQ(told.at("prompt_tokens_asked_mean").to_number<double>(), 180);
  EXPECT_EQ(told.at("output_tokens_of_failed"), 7);
}

TEST(Report, TheTableNamesErrorsAndLeavesOutAnEarlyP99) {
  Tally tally;
  for (int i = 0; i < 99; ++i) tally.add(made_result({.gap = 0, .events = 1}));
  std::ostringstream few;
  tally.print(few, tally.elapsed());
  EXPECT_THAT(few.str(), HasSubstr("99 ok, 0 failed"));
  EXPECT_THAT(few.str(), HasSubstr("TTFT          100.00    100.00    100.00    100.00         -        99\n"));
  EXPECT_THAT(few.str(), Not(HasSubstr("Errors")));
  tally.add(made_result({.gap = 0, .events = 1}));
  Result failed = made_result({.events = 0, .outcome = "timeout"});
  failed.detail = "no end within 5 s";
  tally.add(failed);
  std::ostringstream more;
  tally.print(more, tally.elapsed());
  EXPECT_THAT(more.str(), HasSubstr("TTFT          100.00    100.00    100.00    100.00    100.00       100\n"));
  EXPECT_THAT(more.str(), HasSubstr("Errors     timeout 1\n           first: timeout: no end within 5 s"));
}

TEST(EndedEarly, CountsAnswersThatTheirEngineSaysWereShorter) {
  EndedEarly early;
  const auto add = [&](const Made& made) {
    Result result = made_result(made);
    result.output_target = 5;
    early.add(result);
  };
  // Answers of 5 and 6 are whole, the engine of the next told nothing, and the last one failed.
  for (const std::uint64_t told : {5u, 6u, 0u}) add({.output_tokens = told});
  add({.output_tokens = 4, .outcome = "reset"});
  EXPECT_EQ(early.warning(), std::nullopt);
  add({.output_tokens = 4});
  EXPECT_EQ(early.warning()->substr(0, 16), "1 of 3 answers h");
}

TEST(Course, FollowsTheMomentsOfTheStream) {
  const auto course = course_of(made_result({.sent = 3, .ttft = 0.5, .gap = 0.02, .events = 5, .prompt_tokens = 77}));
  ASSERT_TRUE(course);
  EXPECT_NEAR(course->events.front() - course->sent, 0.5, 1e-6);
  EXPECT_NEAR(course->events.back() - course->events.front(), 0.08, 1e-6);
  EXPECT_EQ(course->prompt_tokens, 77u);
  EXPECT_EQ(course->tokens_per_event, 1);
}

TEST(Course, KnowsByUsageHowManyTokensAnEventHad) {
  const std::pair<Made, double> cases[]{
      {{.events = 5, .output_tokens = 13}, 3},
      {{.events = 10, .output_tokens = 11, .closed_empty = true}, 1},  // An empty event at the end is no speculation.
      {{.events = 5, .output_tokens = 14, .closed_empty = true}, 3}};
  for (const auto& [made, tokens] : cases) EXPECT_DOUBLE_EQ(course_of(made_result(made))->tokens_per_event, tokens);
  EXPECT_FALSE(course_of(made_result({.events = 0}))) << "without a token there is none";
}

}  // namespace
}  // namespace weir::lab::load

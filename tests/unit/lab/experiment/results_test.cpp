#include "lab/experiment/results.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "lab/experiment/experiment.hpp"
#include "lab/experiment/report.hpp"
#include "tests/unit/lab/load/made_results.hpp"

namespace weir::lab::experiment {
namespace {

using load::made_result;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

Plan two_rows() {
  Plan plan;
  plan.title = "Cards";
  plan.repeat = 2;
  Row row;
  row.label = "H800";
  row.url = "http://127.0.0.1:8001";
  row.concurrency = 8;
  plan.rows.push_back(row);
  row.label = "H20";
  row.cost_per_hour = 3.6;
  plan.rows.push_back(row);
  return plan;
}

Repetition repetition(double seconds, std::uint64_t tokens = 1000) {
  return {60, 0, seconds, 33'000, tokens, 0.2, 0.02, 3};
}

Done done() { return {{{0, repetition(10)}, {1, repetition(12)}}, {{0, repetition(20)}}}; }

ResultsRead read(const Plan& plan, const std::string& lines) {
  std::istringstream in(lines);
  return read_results(plan, in);
}

TEST(Repetition, LastsFromTheFirstStartToTheLastEnd) {
  auto failed = made_result({.sent = 1, .events = 2});
  failed.outcome = "reset";
  const auto measured = repetition_of({made_result({.sent = 2, .ttft = 0.5, .gap = 0.1, .events = 11}),
                                       made_result({.sent = 3, .ttft = 0.7, .gap = 0.1, .events = 11}), failed});
  EXPECT_EQ(measured.ok, 2u);
  EXPECT_EQ(measured.failed, 1u);
  EXPECT_NEAR(measured.seconds, 3 + 0.7 + 1.1 - 1, 1e-6);
  EXPECT_NEAR(measured.ttft, 0.6, 1e-6);
  EXPECT_NEAR(measured.tpot, 0.1, 1e-6);
  EXPECT_EQ(measured.output_tokens, 24u) << "those of the failed request were made, too";
}

TEST(Results, AreReadAsTheyWereWritten) {
  const Plan plan = two_rows();
  const auto line = line_of(plan, plan.rows[1], 1, repetition(12.5));
  const auto results = read(plan, line + '\n');
  EXPECT_THAT(results.done[0], IsEmpty());
  ASSERT_EQ(results.done[1].size(), 1u);
  EXPECT_EQ(results.done[1].at(1), repetition(12.5));
  EXPECT_EQ(left(plan, results.done), 3u);

  auto slow = repetition(9);
  slow.own_delay = "this tool computed for 99 % of the time.";
  EXPECT_EQ(read(plan, line_of(plan, plan.rows[1], 0, slow) + '\n').done[1].at(0), slow);
}

TEST(Results, OfAnotherRowOrOtherPromptsDoNotCount) {
  const Plan plan = two_rows();
  const auto line = line_of(plan, plan.rows[0], 0, repetition(1));
  const auto changed = [&](auto&& change) {
    Plan other = two_rows();
    change(other);
    const auto results = read(other, line + '\n');
    return left(other, results.done) == other.repeat * other.rows.size() && results.others == 1;
  };
  EXPECT_TRUE(changed([](Plan& p) { p.rows[0].label = "H900"; }));
  EXPECT_TRUE(changed([](Plan& p) { p.rows[0].url = "http://127.0.0.1:8002"; }));
  EXPECT_TRUE(changed([](Plan& p) { p.rows[0].model = "m"; }));
  EXPECT_TRUE(changed([](Plan& p) { p.rows[0].api = load::Api::tgi; }));
  EXPECT_TRUE(changed([](Plan& p) { p.rows[0].gpu = "g"; }));
  EXPECT_TRUE(changed([](Plan& p) { p.rows[0].engine = "e"; }));
  EXPECT_TRUE(changed([](Plan& p) { p.rows[0].concurrency = 9; }));
  EXPECT_TRUE(changed([](Plan& p) { p.rows[0].speculation = 0; }));
  EXPECT_TRUE(changed([](Plan& p) { p.prompts = 61; }));
  EXPECT_TRUE(changed([](Plan& p) { p.lengths.input_tokens = 551; }));
  EXPECT_TRUE(changed([](Plan& p) { p.lengths.input_stddev = 0; }));
  EXPECT_TRUE(changed([](Plan& p) { p.lengths.output_tokens = 151; }));
  EXPECT_TRUE(changed([](Plan& p) { p.lengths.output_stddev = 0; }));
  EXPECT_TRUE(changed([](Plan& p) { p.lengths.seed = 2; }));
  EXPECT_TRUE(changed([](Plan& p) { p.ignore_eos = true; }));
  EXPECT_FALSE(changed([](Plan& p) { p.rows[0].api_key = "k"; }));
  EXPECT_FALSE(changed([](Plan& p) { p.rows[0].cost_per_hour = 9; })) << "the price changes no figure";
  EXPECT_FALSE(changed([](Plan& p) { p.title = "x"; }));
  EXPECT_FALSE(changed([](Plan& p) { std::swap(p.rows[0], p.rows[1]); }));
}

TEST(Results, OfMoreRepetitionsThanNowAreLeftOut) {
  Plan plan = two_rows();
  const auto line = line_of(plan, plan.rows[0], 1, repetition(1));
  plan.repeat = 1;
  const auto results = read(plan, line);
  EXPECT_EQ(results.beyond, 1u);
  EXPECT_EQ(results.others, 0u);
  EXPECT_EQ(left(plan, results.done), 2u);
}

TEST(Results, HoldNoKey) {
  Plan plan = two_rows();
  plan.rows[0].api_key = "planted";
  EXPECT_THAT(line_of(plan, plan.rows[0], 0, repetition(1)), Not(HasSubstr("planted")));
  EXPECT_THAT(boost::json::serialize(as_json(plan, done())), Not(HasSubstr("planted")));
  EXPECT_THAT(as_csv(plan, done()) + as_text(plan, done(), false), Not(HasSubstr("planted")));
}

TEST(Results, ALineThatWasCutIsLeftOut) {
  const Plan plan = two_rows();
  const auto line = line_of(plan, plan.rows[0], 0, repetition(1));
  for (const std::size_t length : {std::size_t{1}, line.size() / 2, line.size() - 1}) {
    const auto results =
        read(plan, line.substr(0, length) + "\n" + line_of(plan, plan.rows[0], 1, repetition(2)) + "\n");
    EXPECT_EQ(results.broken, 1u);
    EXPECT_EQ(results.done[0].size(), 1u);
  }
  EXPECT_EQ(read(plan, "{}\n[]\nnull\n{\"repetition\":-1,\"seconds\":1}\n").broken, 4u);
}

TEST(Results, OfTwoLinesTheLaterCounts) {
  const Plan plan = two_rows();
  const auto results = read(plan, line_of(plan, plan.rows[0], 0, repetition(1)) + "\n" +
                                      line_of(plan, plan.rows[0], 0, repetition(2)) + "\n");
  EXPECT_EQ(results.done[0].at(0).seconds, 2);
}

TEST(Spread, IsTheMedianWithTheLeastAndTheMost) {
  EXPECT_EQ(spread_of({3, 1, 2}), (Spread{2, 1, 3}));
  EXPECT_EQ(spread_of({4, 1}), (Spread{2.5, 1, 4}));
  EXPECT_EQ(spread_of({}), std::nullopt);
}

TEST(ExperimentSummary, CostsTheTimeThatTheSetTook) {
  const auto summary = summary_of(two_rows().rows[1], {{0, repetition(100, 10'000)}});
  EXPECT_NEAR(summary.cost->median, 0.1, 1e-9);
  EXPECT_NEAR(summary.cost_per_million->median, 10, 1e-9);
  EXPECT_NEAR(summary.tokens_per_second->median, 100, 1e-9);
  EXPECT_EQ(summary_of(two_rows().rows[0], {{0, repetition(100)}}).cost, std::nullopt);
}

TEST(ExperimentReport, HasEachFigureWithItsSpread) {
  const auto text = document_of(two_rows(), done()).markdown();
  EXPECT_THAT(text, HasSubstr("| H800 | 8 | 11 (10 to 12) | 91.7 (83.3 to 100) | 200 | 20 | - | - | 0 |"));
  EXPECT_THAT(text, HasSubstr("| H20 | 8 | 20 | 50 | 200 | 20 | 0.02 | 20 | 0 |"));
  EXPECT_THAT(text, HasSubstr("- H20, 8 at once: 1 of 2 repetitions are done."));
  EXPECT_THAT(text, Not(HasSubstr("GPU"))) << "no row names one";
}

TEST(ExperimentReport, TellsWhereTheToolItselfWasTooSlow) {
  Done slow = done();
  slow[0].at(0).own_delay = "this tool computed for 99 % of the time.";
  EXPECT_THAT(document_of(two_rows(), slow).markdown(), HasSubstr("- H800, 8 at once: this tool computed for 99 %"));
  const auto json = boost::json::value(as_json(two_rows(), slow));
  EXPECT_EQ(json.at("runs").at(0).at("own_delay"), "this tool computed for 99 % of the time.");
  EXPECT_TRUE(json.at("runs").at(1).at("own_delay").is_null());
}

TEST(ExperimentReport, TellsWhatRowsDifferIn) {
  Plan plan = two_rows();
  plan.rows[0].gpu = "H800";
  plan.rows[0].speculation = 0;
  const auto text = document_of(plan, done()).markdown();
  EXPECT_THAT(text, HasSubstr("| run | GPU | speculation | at once |"));
  EXPECT_THAT(text, HasSubstr("| H20 | - | - | 8 |"));
}

TEST(ExperimentReport, WritesNamesIntoCsvAsTheyAre) {
  Plan plan = two_rows();
  plan.rows[0].label = "a,\"b\"";
  const auto csv = as_csv(plan, done());
  EXPECT_THAT(csv, StartsWith("run,url,model,gpu,engine,speculation,concurrency,repetitions,failed,seconds,"));
  EXPECT_THAT(csv, HasSubstr("\r\n\"a,\"\"b\"\"\",http://127.0.0.1:8001,,,,,8,2,0,11,10,12,"));
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  const auto columns = std::ranges::count(line, ',');
  while (std::getline(lines, line))
    EXPECT_EQ(std::ranges::count(line, ','), columns + (line[0] == '"' ? 1 : 0)) << line;
}

TEST(ExperimentReport, JoinsTheRowsOfALabel) {
  Plan plan = two_rows();
  plan.rows[1].label = "H800";
  plan.rows[1].concurrency = 16;
  const auto figures = figures_of(plan, done());
  const auto& charts = figures.at(0).charts;
  ASSERT_EQ(charts.size(), 2u);
  const auto& chart = std::get<chart::Chart>(charts[0]);
  ASSERT_EQ(chart.series.size(), 1u);
  EXPECT_EQ(chart.series[0].points.size(), 2u);
}

TEST(ExperimentReport, WithNothingDoneIsThere) {
  const Done none(2);
  EXPECT_THAT(as_text(two_rows(), none, false), HasSubstr("H800, 8 at once: 0 of 2 repetitions are done."));
  EXPECT_TRUE(as_json(two_rows(), none).at("runs").at(0).at("seconds").is_null());
}

}  // namespace
}  // namespace weir::lab::experiment

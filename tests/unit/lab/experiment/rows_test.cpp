#include "lab/experiment/rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include <set>
#include <sstream>

#include "tests/golden.hpp"
#include "tests/unit/lab/load/made_results.hpp"

namespace weir::lab::experiment {
namespace {

using load::made_result;
using testing::ElementsAre;
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

/// The table of a plan with what it writes and tells.
struct Told {
  explicit Told(const Plan& plan, Done before = Done(2)) : rows(plan, std::move(before), results, progress) {}
  std::ostringstream results, progress;
  Rows rows;
};

/// Returns the beginning of each prompt of a load, and the lengths of its requests.
auto prompts_of(const load::LoadSettings& load) {
  load::Workload workload(load.workload);
  std::vector<std::string> texts;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> lengths;
  for (std::uint64_t i = 0; i < load.requests; ++i) {
    const auto planned = *workload.next();
    texts.push_back(workload.messages(planned).front().substr(0, 30));
    lengths.emplace_back(planned.prompt_tokens, planned.output_tokens);
  }
  return std::pair(texts, lengths);
}

/// Rows may share a replica, and its prefix cache outlives a row.
TEST(Rows, HaveTheSameLengthsAndNoPromptInCommon) {
  Plan plan = two_rows();
  plan.prompts = 10;
  std::multiset<std::string> all;
  const auto points = Told(plan).rows.points();
  ASSERT_EQ(points.size(), 4u);
  for (const Point& point : points) {
    const auto [texts, lengths] = prompts_of(point.load);
    all.insert(texts.begin(), texts.end());
    EXPECT_EQ(lengths, prompts_of(points[2 * point.number].load).second);
    ASSERT_EQ(point.warm_up.has_value(), point.number == 0);
    if (!point.warm_up) continue;
    const auto warm_up = prompts_of(*point.warm_up).first;
    EXPECT_EQ(warm_up.size(), 8u) << "as many as run at once";
    all.insert(warm_up.begin(), warm_up.end());
  }
  EXPECT_NE(prompts_of(points[0].load).second, prompts_of(points[2].load).second);
  EXPECT_EQ(all.size(), 4u * 10 + 2 * 8);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), all.size());
}

TEST(Rows, AskForWhatTheyAndTheFileSay) {
  Plan plan = two_rows();
  plan.ignore_eos = true;
  Row& row = plan.rows[1];
  row.model = "m";
  row.api = load::Api::completions;
  row.api_key = "k";
  const Point point = Told(plan).rows.points()[1];
  for (const auto& load : {point.load, *point.warm_up}) {
    EXPECT_EQ(load.url, "http://127.0.0.1:8001");
    EXPECT_EQ(load.model, "m");
    EXPECT_EQ(load.api, load::Api::completions);
    EXPECT_EQ(load.api_key, "k");
    EXPECT_EQ(load.concurrency, 8u);
    EXPECT_TRUE(load.ignore_eos && load.usage);
  }
  EXPECT_EQ(point.load.requests, 60u);
  EXPECT_FALSE(Told(two_rows()).rows.points()[0].load.ignore_eos);
  std::ostringstream out;
  EXPECT_FALSE(point.load.facts) << "nobody asked for them";
  EXPECT_TRUE(Rows(plan, Done(2), out, out, true).points()[0].load.facts);
}

TEST(Rows, RunWhatIsNotDoneAndGoRound) {
  const Plan plan = two_rows();
  std::vector<std::string> begins;
  for (const Point& point : Told(plan).rows.points()) begins.push_back(point.begins);
  EXPECT_THAT(begins,
              ElementsAre("[1/4] H800, 8 at once, repetition 1 of 2", "[2/4] H20, 8 at once, repetition 1 of 2",
                          "[3/4] H800, 8 at once, repetition 2 of 2", "[4/4] H20, 8 at once, repetition 2 of 2"));
  const auto rest = Told(plan, done()).rows.points();
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].begins, "[1/1] H20, 8 at once, repetition 2 of 2");
  EXPECT_TRUE(rest[0].warm_up) << "whatever was run before";
}

TEST(Rows, KeepARepetitionOfWhichAnythingWasAnswered) {
  const Plan plan = two_rows();
  Told told(plan);
  const auto points = told.rows.points();
  const auto ran = [](const std::vector<const char*>& outcomes, std::string problem = "", bool cut = false) {
    Ran ran;
    for (const char* const outcome : outcomes) {
      ran.results.push_back(made_result({.outcome = outcome}));
      ran.all.add(ran.results.back());
    }
    ran.problem = std::move(problem);
    ran.cut = cut;
    return ran;
  };
  told.rows.take(points[0], ran({"ok", "reset"}));
  told.rows.take(points[1], ran({"ok"}, "", true));
  EXPECT_EQ(told.progress.str(), "        0.3 s, 1 request failed\n");
  const auto kept = read(plan, told.results.str()).done;
  EXPECT_EQ(kept[0].at(0).ok, 1u);
  EXPECT_EQ(kept[0].at(0).failed, 1u);
  EXPECT_THAT(kept[1], IsEmpty()) << "its user ended it";
  EXPECT_TRUE(told.rows.report(false).whole);
  const auto ended = told.rows.report(true);
  EXPECT_FALSE(ended.whole);
  EXPECT_THAT(ended.notes, ElementsAre("ended by its user; the same command goes on from here"));

  const std::pair<Ran, std::string> nothing[]{
      {ran({"reset"}), "reset"}, {ran({}), "no request was sent"}, {ran({}, "cannot resolve x"), "cannot resolve x"}};
  for (const auto& [none, reason] : nothing) {
    Told failing(plan);
    failing.rows.take(points[0], none);
    EXPECT_EQ(failing.progress.str(),
              "        http://127.0.0.1:8001 answered no request (" + reason + "); it is tried again next time\n");
    EXPECT_EQ(failing.results.str(), "");
    EXPECT_FALSE(failing.rows.report(false).whole);
  }
}

TEST(Rows, AreWholeWhereTheUserEndedTheLastOne) {
  const Plan plan = two_rows();
  Done all = done();
  all[1][1] = repetition(1);
  EXPECT_TRUE(Told(plan, all).rows.report(true).whole);
  Told full(plan, all);
  full.results.setstate(std::ios::badbit);
  EXPECT_THROW(full.rows.report(false), std::runtime_error) << "the disk is full";
}

TEST(Repetition, LastsFromTheFirstStartToTheLastEnd) {
  load::Tally requests;
  for (const auto& result : {made_result({.sent = 2, .ttft = 0.5, .gap = 0.1, .events = 11}),
                             made_result({.sent = 3, .ttft = 0.7, .gap = 0.1, .events = 11}),
                             made_result({.sent = 1, .events = 2, .outcome = "reset"})}) {
    requests.add(result);
  }
  const auto measured = repetition_of(requests);
  EXPECT_EQ(measured.ok, 2u);
  EXPECT_EQ(measured.failed, 1u);
  EXPECT_NEAR(measured.seconds, 3 + 0.7 + 1.1 - 1, 1e-6);
  EXPECT_NEAR(measured.ttft, 0.6, 1e-6);
  EXPECT_NEAR(measured.tpot, 0.1, 1e-6);
  EXPECT_NEAR(measured.e2e, 1.7, 1e-6);
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
  const auto line = line_of(two_rows(), two_rows().rows[0], 0, repetition(1));
  using Change = void (*)(Plan&);
  const auto counts = [&](Change change) {
    Plan other = two_rows();
    change(other);
    const auto results = read(other, line + '\n');
    EXPECT_EQ(left(other, results.done) + 1 - results.others, other.repeat * other.rows.size());
    return results.others == 0;
  };
  const Change others[]{[](Plan& p) { p.rows[0].label = "H900"; },
                        [](Plan& p) { p.rows[0].url = "http://127.0.0.1:8002"; },
                        [](Plan& p) { p.rows[0].model = "m"; },
                        [](Plan& p) { p.rows[0].api = load::Api::tgi; },
                        [](Plan& p) { p.rows[0].gpu = "g"; },
                        [](Plan& p) { p.rows[0].engine = "e"; },
                        [](Plan& p) { p.rows[0].concurrency = 9; },
                        [](Plan& p) { p.rows[0].speculation = 0; },
                        [](Plan& p) { p.prompts = 61; },
                        [](Plan& p) { p.lengths.input_tokens = 551; },
                        [](Plan& p) { p.lengths.input_stddev = 0; },
                        [](Plan& p) { p.lengths.output_tokens = 151; },
                        [](Plan& p) { p.lengths.output_stddev = 0; },
                        [](Plan& p) { p.lengths.seed = 2; },
                        [](Plan& p) { p.ignore_eos = true; }};
  for (const Change change : others) EXPECT_FALSE(counts(change)) << &change - others;
  // The price changes no figure.
  const Change same[]{[](Plan& p) { p.rows[0].api_key = "k"; }, [](Plan& p) { p.rows[0].cost_per_hour = 9; },
                      [](Plan& p) { p.title = "x"; }, [](Plan& p) { std::swap(p.rows[0], p.rows[1]); }};
  for (const Change change : same) EXPECT_TRUE(counts(change)) << &change - same;
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
  const auto report = report_of(plan, done());
  EXPECT_THAT(report.json + report.csv + as_text(report, false), Not(HasSubstr("planted")));
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

TEST(ExperimentReport, CostsTheTimeThatTheSetTook) {
  const auto report = report_of(two_rows(), {{{0, repetition(100)}}, {{0, repetition(100, 10'000)}}});
  const auto runs = boost::json::parse(report.json).at("runs");
  EXPECT_NEAR(runs.at(1).at("cost").at("median").as_double(), 0.1, 1e-9);
  EXPECT_NEAR(runs.at(1).at("cost_per_million_output_tokens").at("median").as_double(), 10, 1e-9);
  EXPECT_NEAR(runs.at(1).at("output_tokens_per_second").at("median").as_double(), 100, 1e-9);
  EXPECT_TRUE(runs.at(0).at("cost").is_null());
}

/// Each figure with its spread; then the lines that are others where the tool was slow, rows differ, or nothing is
/// done.
TEST(ExperimentReport, ReadsAsItsGoldenFile) {
  const auto written = [](const Plan& plan, const Done& repetitions) {
    const auto report = report_of(plan, repetitions);
    return report.page.written(metrics::compare::report::Style::markdown) + "\n" + tests::legible(report.json);
  };
  const auto usual = written(two_rows(), done());
  Plan cards = two_rows();
  cards.rows[0].gpu = "H800";
  cards.rows[0].speculation = 0;
  Done slow = done();
  slow[0].at(0).own_delay = "this tool computed for 99 % of the time.";
  tests::expect_golden("experiment.txt", usual + "\n====\n" + tests::lines_beside(written(two_rows(), slow), usual) +
                                             "\n====\n" + tests::lines_beside(written(cards, done()), usual) +
                                             "\n====\n" + tests::lines_beside(written(two_rows(), Done(2)), usual));
}

TEST(ExperimentReport, WritesNamesIntoCsvAsTheyAre) {
  Plan plan = two_rows();
  plan.rows[0].label = "a,\"b\"";
  const auto csv = report_of(plan, done()).csv;
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
  const auto figures = report_of(plan, done()).charts;
  const auto& charts = figures.at(0).charts;
  ASSERT_EQ(charts.size(), 2u);
  const auto& chart = std::get<chart::Chart>(charts[0]);
  ASSERT_EQ(chart.series.size(), 1u);
  EXPECT_EQ(chart.series[0].points.size(), 2u);
  const auto text = as_text(report_of(plan, done()), false);
  EXPECT_THAT(text, HasSubstr("Throughput against TPOT"));
  EXPECT_THAT(text, Not(HasSubstr("Throughput against TTFT"))) << "a terminal has room for one";
}

}  // namespace
}  // namespace weir::lab::experiment

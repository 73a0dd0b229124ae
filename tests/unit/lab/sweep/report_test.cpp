#include "lab/sweep/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::lab::sweep {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Returns a sweep of an engine that bends at 2 at once.
Sweep sweep() {
  Sweep made;
  for (const std::uint64_t n : {1u, 2u, 4u}) {
    LoadPoint point;
    point.concurrency = n;
    point.batches = point.steady = 3;
    const auto latency = static_cast<float>(n <= 2 ? 0.010 : 0.020);
    const double rate = static_cast<double>(n) / static_cast<double>(latency);
    point.prefill = Phase{std::vector<float>(3 * n, 0.1F * static_cast<float>(n)), 1000, 990, 1010, 0.5};
    point.decode = Phase{std::vector<float>(40 * n, latency), rate, rate, rate, 0.4};
    made.points.push_back(std::move(point));
  }
  made.prefill = knee_of(operations_of(made.points, &LoadPoint::prefill));
  made.decode = knee_of(operations_of(made.points, &LoadPoint::decode));
  return made;
}

SweepSettings settings() {
  SweepSettings s;
  s.load.workload.input_tokens = 3000;
  s.load.workload.output_tokens = 200;
  s.runs = 3;
  return s;
}

TEST(SweepReport, HasTheKeysThatProgramsRead) {
  const auto json = boost::json::value(as_json(sweep(), settings()));
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
}

TEST(SweepReport, SaysWhatIsLeftOutAndWhereTheKneeIs) {
  const auto text = document_of(sweep(), settings(), true).markdown();
  EXPECT_THAT(text, HasSubstr("3000 tokens in, 200 out"));
  EXPECT_THAT(text, HasSubstr("3 batches of each size are measured, after 1 that is left out as a warm-up"));
  EXPECT_THAT(text, HasSubstr("The knee of decode is at 2 at once."));
  EXPECT_THAT(text, HasSubstr("The knee is the number at once with the greatest throughput / latency"));
}

TEST(SweepReport, SaysWhyAPointHasNoDecode) {
  auto made = sweep();
  made.points[2].decode.reset();
  made.points[2].steady = 0;
  made.points[2].unsteady = Unsteady::not_together;
  made.decode = knee_of(operations_of(made.points, &LoadPoint::decode));
  const auto text = document_of(made, settings(), true).markdown();
  EXPECT_THAT(text, HasSubstr("4 at once: 3 of 3 batches have no decode: requests had ended before others"));
  EXPECT_THAT(text, HasSubstr("There is no knee of decode"));
  const auto json = boost::json::value(as_json(made, settings()));
  EXPECT_TRUE(json.at("sweep").at(2).at("decode").is_null());
  EXPECT_TRUE(json.at("knee").at("decode").is_null());
}

TEST(SweepReport, TellsOfFailures) {
  auto made = sweep();
  made.points[1].left_out = 1;
  made.points[1].failed = 2;
  made.points[1].failure = "http_503: busy";
  EXPECT_THAT(document_of(made, settings(), true).markdown(),
              HasSubstr("2 at once: 1 batch is left out, because requests failed (http\\_503: busy)."));
}

TEST(SweepReport, TellsOfAnswersWithoutAToken) {
  auto made = sweep();
  made.points[1].left_out = 2;
  made.points[1].without_token = 3;
  EXPECT_THAT(document_of(made, settings(), true).markdown(),
              HasSubstr("2 at once: 2 batches are left out, because answers had no token; look at"));
  made.points[1].failed = 1;
  made.points[1].failure = "reset";
  EXPECT_THAT(document_of(made, settings(), true).markdown(),
              HasSubstr("because requests failed (reset) or answers had no token"));
}

TEST(SweepReport, SaysThatTheKneeMayLieBelowTheLowestNumberTried) {
  auto made = sweep();
  made.points[0].concurrency = 3;
  made.prefill = {Knee::State::at_or_below, std::nullopt};
  EXPECT_THAT(document_of(made, settings(), true).markdown(),
              HasSubstr("The knee of prefill is at 3 at once or below: throughput / latency is greatest at the lowest "
                        "number at once. Try fewer."));
  EXPECT_TRUE(boost::json::value(as_json(made, settings())).at("knee").at("prefill").is_null());
}

TEST(SweepReport, TellsWhereTheToolItselfWasTooSlow) {
  auto made = sweep();
  made.points[2].own_delay = "this tool computed for 99 % of the time.";
  EXPECT_THAT(document_of(made, settings(), true).markdown(), HasSubstr("4 at once: this tool computed for 99 %"));
  const auto json = boost::json::value(as_json(made, settings()));
  EXPECT_EQ(json.at("sweep").at(2).at("own_delay"), "this tool computed for 99 % of the time.");
  EXPECT_TRUE(json.at("sweep").at(1).at("own_delay").is_null());
}

TEST(SweepReport, WithoutFiguresIsThere) {
  Sweep empty;
  empty.interrupted = true;
  const auto text = as_text(empty, settings(), false);
  EXPECT_THAT(text, HasSubstr("There are no figures."));
  EXPECT_THAT(text, HasSubstr("ended by its user"));
  EXPECT_TRUE(as_json(empty, settings()).at("interrupted").as_bool());
}

TEST(SweepReport, DrawsBothPhasesAndColoursOnlyATerminal) {
  const auto text = as_text(sweep(), settings(), false);
  EXPECT_THAT(text, HasSubstr("Prefill: latency against throughput"));
  EXPECT_THAT(text, HasSubstr("Decode: latency against throughput"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(as_text(sweep(), settings(), true), HasSubstr("\x1b"));
}

TEST(SweepReport, DrawsTheHistogramsOfSixNumbersAtOnceAtMost) {
  Sweep made = sweep();
  for (std::uint64_t n = 8; n <= 1024; n *= 2) {
    made.points.push_back(made.points[2]);
    made.points.back().concurrency = n;
  }
  const auto figures = figures_of(made);
  const auto& histogram = std::get<chart::Histogram>(figures[0].charts[1]);
  ASSERT_EQ(histogram.series.size(), 6u);
  EXPECT_EQ(histogram.series.front().name, "1 at once");
  EXPECT_EQ(histogram.series.back().name, "1024 at once");
}

TEST(SweepReport, HasFiguresForItsHeadings) {
  const auto figures = figures_of(sweep());
  ASSERT_EQ(figures.size(), 2u);
  for (const auto& under : figures) EXPECT_EQ(under.charts.size(), 2u) << under.about;
}

}  // namespace
}  // namespace weir::lab::sweep

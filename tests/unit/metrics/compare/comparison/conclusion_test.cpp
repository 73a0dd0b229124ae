#include "metrics/compare/comparison/conclusion.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::metrics::compare::comparison {
namespace {

using statistics::Finding;
using statistics::Metric;
using testing::HasSubstr;
using testing::Not;

/// A comparison with a control, whose answers are the same.
Comparison compared() {
  Comparison made;
  made.state = State::running;
  made.mode = pairs::Mode::control;
  made.a = "fp16";
  made.b = "fp8";
  made.window = {0, 600'000'000};
  made.sameness.word = pairs::Alike::same;
  for (std::size_t i = 0; i < made.faults.size(); ++i) made.faults[i].fault = static_cast<pairs::Fault>(i);
  return made;
}

void add(Comparison& to, Metric metric, Finding finding, double a, double b) {
  Verdict verdict;
  verdict.metric = metric;
  verdict.finding = finding;
  verdict.value_a = a;
  verdict.value_b = b;
  verdict.estimate = b / a - 1;
  to.verdicts.push_back(verdict);
}

std::string line(const Comparison& of) { return conclusion_of(of, gate_of(of)); }

/// Ten pairs of which `only_a` and `only_b` have the fault on one side alone, the others on none.
void add_faults(Comparison& to, pairs::Fault fault, Finding finding, unsigned only_a, unsigned only_b) {
  auto& one = to.faults[static_cast<std::size_t>(fault)];
  one.finding = finding;
  for (unsigned i = 0; i < 10; ++i) one.pairs.add(i < only_a, i >= 10 - only_b);
}

TEST(Conclusion, NamesWhatIsWorseFirstInAbsoluteFigures) {
  auto slower = compared();
  add_faults(slower, pairs::Fault::failed, Finding::not_worse, 0, 0);
  add(slower, Metric::slo, Finding::worse, 0.023, 0.043);
  add(slower, Metric::ttft, Finding::not_worse, 0.163, 0.164);
  add(slower, Metric::tpot, Finding::worse, 0.0272, 0.0315);
  EXPECT_EQ(line(slower),
            "fp8 is slower: TPOT from 27.2 to 31.5 ms (+15.8 %), SLO misses from 2.30 to 4.30 %, TTFT from 163 to 164 ms "
            "(+0.6 %); "
            "answers are the same. Do not promote.");
}

TEST(Conclusion, HasAWordForEachKindOfWorse) {
  struct Row {
    Metric metric;
    const char* word;
  };
  for (const auto& [metric, word] :
       {Row{Metric::ttft, "is slower"}, Row{Metric::slo, "misses the objective more often"},
        Row{Metric::output_tokens_mean, "answers at greater length"}, Row{Metric::freezes, "stalls more often"},
        Row{Metric::longest_gap, "stalls more often"},
        Row{Metric::ttft_minority, "is slower for a minority of requests"},
        Row{Metric::tpot_minority, "is slower for a minority of requests"}}) {
    auto one = compared();
    add(one, metric, Finding::worse, 0.1, 0.2);
    EXPECT_THAT(line(one), HasSubstr(std::string("fp8 ") + word + ": ")) << name_of(metric);
    EXPECT_THAT(line(one), testing::EndsWith("Do not promote."));
  }
  auto fails = compared();
  add_faults(fails, pairs::Fault::failed, Finding::worse, 0, 9);
  EXPECT_THAT(line(fails), testing::StartsWith("fp8 fails more often: failed requests from 0.00 to 90.00 %;"));
  add(fails, Metric::tpot, Finding::worse, 0.1, 0.2);
  EXPECT_THAT(line(fails), testing::StartsWith("fp8 is slower and fails more often: failed requests"));
}

TEST(Conclusion, PromotesOnlyWhatPassesTheGate) {
  auto good = compared();
  add_faults(good, pairs::Fault::failed, Finding::not_worse, 0, 0);
  add(good, Metric::tpot, Finding::better, 1.5, 1.2);
  add(good, Metric::ttft, Finding::equivalent, 0.1, 0.1);
  EXPECT_EQ(line(good),
            "fp8 is faster: TPOT from 1.50 to 1.20 s (-20.0 %), TTFT from 100 to 100 ms (0.0 %); answers are the same. May be "
            "promoted.");
  good.sameness.word = pairs::Alike::differs;
  EXPECT_THAT(line(good), HasSubstr("answers differ. Look at the answers before you promote."));
  good.sameness.word = pairs::Alike::unknown;
  good.mode = pairs::Mode::mirrored;
  EXPECT_THAT(line(good), testing::EndsWith("; answers were not judged, which takes a control. May be promoted, if its "
                                            "answers are as good."));
}

TEST(Conclusion, SaysThatNothingWasMirroredAndWhatToChange) {
  auto none = compared();
  none.mode = pairs::Mode::mirrored;
  none.sameness.word = pairs::Alike::unknown;
  none.needs_s = 1200;
  none.dropped = {{"primary_waits", 600}, {"max_in_flight", 1200}};
  EXPECT_THAT(line(none), testing::EndsWith("Nothing was mirrored: the shadow was spared 1800 requests: max_in_flight "
                                            "1200, primary_waits 600. Raise max_in_flight of the [[shadow]], or give "
                                            "it a smaller share with sample."));
  EXPECT_THAT(line(none), Not(HasSubstr("Wait")));
}

TEST(Conclusion, SaysHowLongToWait) {
  auto open = compared();
  open.mode = pairs::Mode::mirrored;
  open.sameness.word = pairs::Alike::unknown;
  add(open, Metric::tpot, Finding::inconclusive, 0.02, 0.021);
  EXPECT_THAT(line(open), testing::StartsWith("Not known yet whether fp8 is worse than fp16 in failed requests and TPOT: TPOT from 20 to 21 ms"));
  EXPECT_THAT(line(open), HasSubstr("answers were not judged, which takes a control"));
  EXPECT_THAT(line(open), HasSubstr("Take a longer window, or a wider margin."));
  open.look = Look{1, 600, 1200};
  EXPECT_THAT(line(open), HasSubstr("Wait 10 min more for the next look."));
  open.needs_s = 1201;
  EXPECT_THAT(line(open), HasSubstr("Wait 11 min more."));
  open.unfilled = Unfilled{};
  EXPECT_THAT(line(open), HasSubstr("Wait until the shadow is warm."));
  open.mode = pairs::Mode::split;
  EXPECT_THAT(line(open), Not(HasSubstr("answers")));
}

/// A window of two states has no verdict that holds for both: what happened comes before how long to wait.
TEST(Conclusion, BeginsWithAChangeForTheWorse) {
  auto changed = compared();
  add(changed, Metric::tpot, Finding::inconclusive, 0.02, 0.022);
  changed.look = Look{1, 600, 1200};
  changed.changes = {{Metric::tpot, 1'764'000'000'000'000 + 20 * 60'000'000LL, 0.246}};
  EXPECT_THAT(line(changed), testing::StartsWith("fp8 became worse at 16:20 (TPOT +24.6 % beside fp16 since then): TPOT"));
  EXPECT_THAT(line(changed), testing::EndsWith("Find out what happened then, and compare again from there (--from)."));
  changed.changes[0].by = -0.2;
  EXPECT_THAT(line(changed), testing::StartsWith("Not known yet"));
  EXPECT_THAT(line(changed), HasSubstr("Wait 10 min more for the next look."));
}

}  // namespace
}  // namespace weir::metrics::compare::comparison

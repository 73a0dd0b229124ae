#include "proxy/compare/fail_if.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace weir::proxy::compare {
namespace {

using metrics::compare::comparison::State;
using metrics::compare::statistics::Finding;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const std::vector<Judgement> fine{
    {"ttft", Finding::better, true}, {"tpot", Finding::equivalent, true}, {"slo", Finding::not_worse, true}};

std::vector<Judgement> fine_and(const Judgement& one) {
  auto judgements = fine;
  judgements.push_back(one);
  return judgements;
}

TEST(FailIf, FailsForWhatIsAskedAloneAndNamesTheMetric) {
  for (const auto finding : {Finding::worse, Finding::longer, Finding::shorter, Finding::inconclusive}) {
    const auto judgements = fine_and({"the_metric", finding, true});
    for (const auto word : fail_if_words) {
      const auto said = failures({std::string(word)}, State::final, judgements);
      if (word == name_of(finding)) {
        EXPECT_THAT(said, ElementsAre("--fail-if " + std::string(word) + ": so is the_metric"));
      } else {
        EXPECT_THAT(said, IsEmpty()) << word << " for " << name_of(finding);
      }
    }
  }
}

TEST(FailIf, NamesAllMetricsAndAllWords) {
  auto judgements = fine_and({"tpot", Finding::worse, true});
  judgements.push_back({"failed", Finding::worse, true});
  judgements.push_back({"output_tokens", Finding::longer, true});
  EXPECT_THAT(failures({"worse", "longer", "too_few"}, State::final, judgements),
              ElementsAre("--fail-if worse: so is tpot, failed", "--fail-if longer: so is output_tokens"));
}

TEST(FailIf, TooFewIsTheStateAndARunningWindowWithVerdictsIsNone) {
  EXPECT_THAT(failures({"too_few"}, State::too_few, fine), SizeIs(1));
  EXPECT_THAT(failures({"too_few"}, State::running, fine), IsEmpty());
  EXPECT_THAT(failures({"worse", "inconclusive"}, State::too_few, fine), IsEmpty());
}

TEST(FailIf, ATailThatIsWorseCountsAndOneThatIsInconclusiveDoesNot) {
  EXPECT_THAT(failures({"worse"}, State::final, fine_and({"ttft_tail", Finding::worse, true, true})), SizeIs(1));
  EXPECT_THAT(failures({"worse", "inconclusive", "too_few"}, State::final,
                       fine_and({"ttft_tail", Finding::inconclusive, true, true})),
              IsEmpty());
}

TEST(FailIf, WithoutBeingAskedNeverFails) {
  const std::vector<Judgement> nothing{{"tpot", Finding::inconclusive, false}};
  for (const auto& judgements : {fine, fine_and({"tpot", Finding::worse, true}), nothing})
    EXPECT_THAT(failures({}, State::too_few, judgements), IsEmpty());
}

TEST(FailIf, DoesNotPassOnNoData) {
  const std::vector<Judgement> nothing{{"tpot", Finding::inconclusive, false, true}};
  for (const auto word : fail_if_words) {
    EXPECT_THAT(failures({std::string(word)}, State::running, nothing), Not(IsEmpty())) << word;
    EXPECT_THAT(failures({std::string(word)}, State::running, {}), Not(IsEmpty())) << word;
  }
}

/// A few pairs have faults that could be told, and nothing is told of them.
TEST(FailIf, PairsThatTellNothingAreNoData) {
  metrics::compare::comparison::Comparison comparison;
  comparison.verdicts.emplace_back();
  comparison.faults[0].pairs.add(false, false);
  EXPECT_THAT(failures({"worse"}, State::too_few, judgements_of(comparison)), SizeIs(1));
  comparison.faults[0].finding = Finding::not_worse;
  EXPECT_THAT(failures({"worse"}, State::too_few, judgements_of(comparison)), IsEmpty());
}

TEST(FailIf, AFaultThatIsWorseCountsByItself) {
  metrics::compare::comparison::Comparison comparison;
  comparison.faults[0].pairs.add(false, true);
  comparison.faults[0].finding = Finding::worse;
  EXPECT_THAT(failures({"worse"}, State::too_few, faults_of(comparison)),
              ElementsAre("--fail-if worse: so is failed"));
}

}  // namespace
}  // namespace weir::proxy::compare

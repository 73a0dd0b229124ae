// The machine that makes findings of what rules say, with rules that a test makes up.
#include "proxy/live/findings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

namespace weir::proxy::live {
namespace {

using std::chrono::seconds;

/// The cases of the next second, which the rule repeats.
std::vector<Case> said;
void repeat(const Now&, std::vector<Case>& cases) { cases.insert(cases.end(), said.begin(), said.end()); }

constexpr seconds begins_after{10};
constexpr std::array one_rule{Rule{"odd", "replica", "It is odd.", begins_after, repeat}};

class FindingsTest : public ::testing::Test {
 protected:
  std::vector<Findings::Change> second(std::vector<Case> cases) {
    said = std::move(cases);
    now.at += seconds(1);
    now.time += seconds(1);
    return findings.tick(now);
  }
  std::vector<Findings::Change> second(Sign sign) { return second({{"gpu0", sign, "text"}}); }

  Now now{.at = Moment() + seconds(1000), .time = Wall() + seconds(1'700'000'000)};
  Findings findings{one_rule};
};

TEST_F(FindingsTest, BeginOnceTheRuleHasHeldForSoLong) {
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(second(Sign::bad).empty()) << i;
  const auto began = second(Sign::bad);
  ASSERT_EQ(began.size(), 1u);
  EXPECT_TRUE(began[0].begins);
  EXPECT_EQ(began[0].finding.who, "gpu0");
  EXPECT_EQ(now.time - began[0].finding.since, seconds(10)) << "since is when it began to hold";
  EXPECT_EQ(findings.standing().size(), 1u);
  EXPECT_TRUE(second(Sign::bad).empty()) << "said once";
}

TEST_F(FindingsTest, ABreakBeginsAnew) {
  for (const auto pause : {Sign::between, Sign::fine, Sign::unknown}) {
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(second(Sign::bad).empty());
    EXPECT_TRUE(second(pause).empty());
  }
  EXPECT_TRUE(findings.standing().empty());
}

TEST_F(FindingsTest, EndOnceItHasBeenWellForSoLong) {
  for (int i = 0; i < 11; ++i) second(Sign::bad);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(second(Sign::fine).empty());
    EXPECT_TRUE(second(Sign::between).empty()) << "not on the good side";
  }
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(second(Sign::fine).empty()) << i;
  const auto over = second(Sign::fine);
  ASSERT_EQ(over.size(), 1u);
  EXPECT_FALSE(over[0].begins);
  EXPECT_TRUE(findings.standing().empty());
}

TEST_F(FindingsTest, WhoHasNoCaseIsFine) {
  for (int i = 0; i < 11; ++i) second(Sign::bad);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(second(std::vector<Case>()).empty());
  EXPECT_EQ(second(std::vector<Case>()).size(), 1u);
}

TEST_F(FindingsTest, WhatIsUnknownStandsForAWhile) {
  for (int i = 0; i < 11; ++i) second(Sign::bad);
  for (int i = 0; i < 120; ++i) EXPECT_TRUE(second(Sign::unknown).empty());
  EXPECT_EQ(second(Sign::unknown).size(), 1u);
}

/// A figure that is known now and then, and well whenever it is.
TEST_F(FindingsTest, NothingStandsForEverWhereTheFigureComesAndGoes) {
  for (const int known : {1, 5, 19}) {
    for (int i = 0; i < 11; ++i) second(Sign::bad);
    ASSERT_EQ(findings.standing().size(), 1u);
    int lasted = 0;
    for (; !findings.standing().empty() && lasted < 1000; ++lasted)
      second(lasted % (known + 1) < known ? Sign::fine : Sign::unknown);
    EXPECT_LE(lasted, 121) << known;
  }
}

TEST_F(FindingsTest, TheTextIsThatOfTheLastSecondThatWasNotWell) {
  for (int i = 0; i < 11; ++i) second({{"gpu0", Sign::bad, "text " + std::to_string(i)}});
  second({{"gpu0", Sign::between, "the last"}});
  second({{"gpu0", Sign::fine, ""}});
  EXPECT_EQ(findings.standing().at(0).text, "the last");
}

TEST_F(FindingsTest, TheCriticalOnesComeFirstThenTheOldest) {
  for (int i = 0; i < 30; ++i) {
    std::vector<Case> cases{{"a", Sign::bad, ""}, {"c", Sign::bad, "", Severity::critical}};
    if (i > 5) cases.push_back({"b", Sign::bad, ""});
    second(std::move(cases));
  }
  std::string order;
  for (const auto& one : findings.standing()) order += one.who;
  EXPECT_EQ(order, "cab");
}

/// Whatever a rule says of several names, each name's findings begin at least begins_after + ends_after apart, and end
/// no sooner than ends_after after they began.
TEST_F(FindingsTest, NeverFlapMoreOftenThanTheHysteresisAllows) {
  std::mt19937 random(11);
  std::map<std::string, Moment> began;
  std::size_t begins = 0;
  for (int round = 0; round < 60; ++round) {
    // How long a sign lasts, on average, differs by round.
    const int lasts = 1 + round % 30;
    std::map<std::string, Sign> signs;
    for (int i = 0; i < 1000; ++i) {
      std::vector<Case> cases;
      for (const auto* who : {"gpu0", "gpu1", "gpu2"}) {
        if (random() % static_cast<unsigned>(lasts) == 0) signs[who] = static_cast<Sign>(random() % 4);
        if (random() % 50 != 0) cases.push_back({who, signs[who], "text"});
      }
      for (const auto& change : second(std::move(cases))) {
        const auto& who = change.finding.who;
        if (change.begins) {
          ++begins;
          if (began.contains(who)) {
            ASSERT_GE(now.at - began[who], begins_after + Findings::ends_after);
          }
          began[who] = now.at;
        } else {
          ASSERT_GE(now.at - began[who], Findings::ends_after);
        }
      }
    }
  }
  EXPECT_GT(begins, 100u) << "the test shows something";
}

/// A figure with noise about the threshold: the same bound, whatever the noise.
TEST_F(FindingsTest, AFigureThatTremblesAboutItsThresholdMakesFewFindings) {
  std::mt19937 random(12);
  for (const double noise : {0.01, 0.1, 0.3, 1.0}) {
    std::normal_distribution<double> tremble(0, noise);
    std::size_t begins = 0;
    for (int i = 0; i < 3600; ++i) {
      const double figure = 1.5 + tremble(random);
      const auto sign = figure >= 1.5 ? Sign::bad : figure < 1.25 ? Sign::fine : Sign::between;
      for (const auto& change : second(sign)) begins += change.begins ? 1 : 0;
    }
    EXPECT_LE(begins, 3u) << noise;
  }
}

}  // namespace
}  // namespace weir::proxy::live

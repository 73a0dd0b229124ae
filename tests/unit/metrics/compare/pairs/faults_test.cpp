#include "metrics/compare/pairs/faults.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::pairs {
namespace {

/// Two answers to one request, for a test to change. The shadow is b.
class FaultsTest : public testing::Test {
 protected:
  struct Both {
    samples::Sample &a, &b;
  };
  Both pair() {
    samples::Sample& primary = samples.primary(++at * second);
    return {primary, samples.shadow(primary)};
  }
  static void fail(samples::Sample& sample, Outcome outcome) {
    sample.outcome = outcome;
    sample.served = false;
  }
  comparison::FaultVerdict of(Fault fault) { return *compare(samples, options_of(samples)).fault_of(fault); }

  TwinSamples samples;
  int at = 0;
};

TEST_F(FaultsTest, AFailureIsTheReplicas) {
  struct Case {
    Outcome a, b;
    bool judged, failed_a, failed_b;
  };
  using enum Outcome;
  for (const auto& c :
       {Case{ok, ok, true, false, false}, Case{ok, upstream_error, true, false, true},
        Case{ok, upstream_reset, true, false, true}, Case{ok, truncated, true, false, true},
        Case{ok, timeout, true, false, true}, Case{ok, replica_refused, true, false, true},
        Case{timeout, ok, true, true, false}, Case{timeout, timeout, true, true, true},
        Case{ok, client_error, true, false, true}, Case{client_error, ok, true, true, false},
        Case{client_error, client_error, true, false, false}, Case{client_error, upstream_error, true, true, true},
        Case{ok, client_abort, false, false, false}, Case{client_abort, ok, false, false, false},
        Case{ok, rejected, false, false, false}, Case{bad_request, ok, false, false, false}}) {
    samples.each().clear();
    const Both both = pair();
    if (c.a != ok) fail(both.a, c.a);
    if (c.b != ok) fail(both.b, c.b);
    const auto found = of(Fault::failed).pairs;
    SCOPED_TRACE(testing::Message() << name_of(c.a) << " and " << name_of(c.b));
    EXPECT_EQ(found.pairs, c.judged ? 1u : 0u);
    EXPECT_EQ(found.both, c.failed_a && c.failed_b ? 1u : 0u);
    EXPECT_EQ(found.only_a, c.failed_a && !c.failed_b ? 1u : 0u);
    EXPECT_EQ(found.only_b, c.failed_b && !c.failed_a ? 1u : 0u);
    EXPECT_EQ(of(Fault::empty).pairs.pairs, c.a == ok && c.b == ok ? 1u : 0u);
  }
}

TEST_F(FaultsTest, AClientThatLeftAfterTheEndTellsOfTheReplica) {
  const Both both = pair();
  both.a.outcome = both.b.outcome = Outcome::client_abort;
  EXPECT_EQ(of(Fault::failed).pairs.pairs, 1u);
  EXPECT_EQ(of(Fault::failed).pairs.both, 0u);
}

TEST_F(FaultsTest, ADroppedShadowHasNoFault) {
  samples.drop(pair().b, "busy");
  EXPECT_EQ(of(Fault::failed).pairs.pairs, 0u);
}

TEST_F(FaultsTest, EmptyAndCutAnswersAreWhole) {
  pair().b.outcome = Outcome::ok_empty;
  for (const auto* reason : {"length", "max_tokens", "limit", "max_output_tokens", "stop", "LENGTH", ""})
    pair().a.finish_reason = samples.names.of(reason);
  EXPECT_EQ(of(Fault::empty).pairs.only_b, 1u);
  EXPECT_EQ(of(Fault::empty).pairs.pairs, 8u);
  EXPECT_EQ(of(Fault::length).pairs.only_a, 4u);
  EXPECT_EQ(of(Fault::length).pairs.pairs, 8u);
  EXPECT_EQ(of(Fault::failed).pairs.only_b, 0u);
}

TEST_F(FaultsTest, ToolsAreToldByThePairsThatCallAny) {
  const auto add = [&](std::int8_t of_primary, std::int8_t of_shadow) {
    const Both both = pair();
    both.b.primary_valid_tools = of_primary;
    both.b.valid_tools = of_shadow;
  };
  add(1, 1);
  add(1, 0);
  add(1, 0);
  add(0, 1);
  add(-1, -1);
  const auto found = of(Fault::tools).pairs;
  EXPECT_EQ(found.pairs, 4u);
  EXPECT_EQ(found.only_b, 2u);
  EXPECT_EQ(found.only_a, 1u);
}

TEST_F(FaultsTest, WhatSharesACauseIsOneEvent) {
  // A crash takes twelve requests of b in two seconds.
  for (int i = 0; i < 1800; ++i) pair();
  for (std::size_t i = 0; i < 12; ++i) fail(samples.each()[2 * (301 + i) + 1], Outcome::upstream_reset);
  const auto crash = of(Fault::failed);
  EXPECT_LE(crash.causes.b, 2);
  EXPECT_EQ(crash.finding, statistics::Finding::inconclusive);
  EXPECT_LE(crash.difference.low, 0) << "the interval does not show what the evidence does not";
  // The same number, one every two minutes, is a rate.
  for (auto& sample : samples.each()) {
    sample.outcome = Outcome::ok;
    sample.served = true;
  }
  for (std::size_t i = 0; i < 12; ++i) fail(samples.each()[2 * (10 + 120 * i) + 1], Outcome::upstream_reset);
  const auto rate = of(Fault::failed);
  EXPECT_EQ(rate.causes.b, 12);
  EXPECT_EQ(rate.finding, statistics::Finding::worse);
  EXPECT_GT(rate.difference.low, 0);
}

/// Fourteen failures are a verdict by single pairs, and seven half minutes are none: those of one share a cause. Nor
/// are twelve half minutes of one outage, in an hour.
TEST_F(FaultsTest, NeitherPairsThatFailTogetherNorALongOutageAreAVerdict) {
  for (int i = 0; i < 14 * 60; ++i)
    if (const Both both = pair(); i / 60 % 2 == 0 && i % 60 < 2) fail(both.b, Outcome::timeout);
  EXPECT_EQ(of(Fault::failed).pairs.only_b, 14u);
  EXPECT_EQ(of(Fault::failed).causes.b, 7);
  EXPECT_EQ(of(Fault::failed).finding, statistics::Finding::inconclusive);
  samples.each().clear();
  at = -1;
  for (int i = 0; i < 60 * 60; ++i)
    if (const Both both = pair(); i >= 1800 && i < 2160 && i % 30 == 0) fail(both.b, Outcome::timeout);
  EXPECT_EQ(of(Fault::failed).causes.b, 12);
  EXPECT_LT(of(Fault::failed).more_in_b, comparison::evidence_needed);
  EXPECT_NE(of(Fault::failed).finding, statistics::Finding::worse);
}

/// A candidate that answers nothing is found by the same ten half minutes.
TEST_F(FaultsTest, WhoFailsAlwaysIsFoundAfterFiveMinutes) {
  for (int i = 0; i < 6 * 60; ++i) fail(pair().b, Outcome::timeout);
  const auto dead = of(Fault::failed);
  EXPECT_GE(dead.causes.b, 12);
  EXPECT_EQ(dead.finding, statistics::Finding::worse);
  EXPECT_GT(dead.difference.low, 0);
}

/// The interval and the evidence do not contradict each other.
TEST_F(FaultsTest, TheDifferenceHoldsNothingUntilThereIsEvidence) {
  // One failure of b in each minute.
  for (int causes = 1; causes <= 12; ++causes) {
    for (int i = 0; i < 60; ++i)
      if (const Both both = pair(); i == 30) fail(both.b, Outcome::timeout);
    const auto failed = of(Fault::failed);
    EXPECT_EQ(failed.causes.b, causes);
    const bool told = failed.more_in_b >= comparison::evidence_needed;
    EXPECT_EQ(told, causes >= 10) << failed.more_in_b;
    EXPECT_EQ(failed.finding, told ? statistics::Finding::worse : statistics::Finding::inconclusive);
    EXPECT_EQ(failed.difference.low > 0, told) << causes;
  }
  comparison::Options changed = options_of(samples);
  std::swap(changed.a, changed.b);
  EXPECT_EQ(compare(samples, changed).fault_of(Fault::failed)->finding, statistics::Finding::better);
}

TEST_F(FaultsTest, TheMarginIsWiderWhereAFaultIsFrequent) {
  for (int i = 0; i < 3000; ++i) pair();
  EXPECT_DOUBLE_EQ(of(Fault::failed).margin, 0.002);
  EXPECT_EQ(of(Fault::failed).finding, statistics::Finding::not_worse) << "3000 pairs without a fault";
  for (std::size_t i = 0; i < 30; ++i) {
    fail(samples.each()[200 * i], Outcome::timeout);
    fail(samples.each()[200 * i + 1], Outcome::timeout);
  }
  EXPECT_NEAR(of(Fault::failed).margin, 0.002 + 0.12 * std::sqrt(0.01 * 0.99), 1e-12);
}

TEST_F(FaultsTest, AsLongAsItIsOpenItSaysWhichWindowWouldTell) {
  for (int i = 0; i < 1200; ++i) pair();
  const auto open = of(Fault::failed);
  EXPECT_EQ(open.finding, statistics::Finding::inconclusive);
  ASSERT_TRUE(open.needs_s);
  for (int i = 1200; i < 1.05 * *open.needs_s; ++i) pair();
  EXPECT_EQ(of(Fault::failed).finding, statistics::Finding::not_worse);
}

}  // namespace
}  // namespace weir::metrics::compare::pairs

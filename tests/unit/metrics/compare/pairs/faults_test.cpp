#include "metrics/compare/pairs/faults.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

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
  FaultPairs of(Fault fault) { return compare(samples, options_of(samples)).faults[static_cast<std::size_t>(fault)]; }

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
    EXPECT_EQ(found.pairs(), c.judged ? 1u : 0u);
    EXPECT_EQ(found.both(), c.failed_a && c.failed_b ? 1u : 0u);
    EXPECT_EQ(found.only_a(), c.failed_a && !c.failed_b ? 1u : 0u);
    EXPECT_EQ(found.only_b(), c.failed_b && !c.failed_a ? 1u : 0u);
    EXPECT_EQ(of(Fault::empty).pairs.pairs(), c.a == ok && c.b == ok ? 1u : 0u);
  }
}

TEST_F(FaultsTest, AClientThatLeftAfterTheEndTellsOfTheReplica) {
  const Both both = pair();
  both.a.outcome = both.b.outcome = Outcome::client_abort;
  EXPECT_EQ(of(Fault::failed).pairs.pairs(), 1u);
  EXPECT_EQ(of(Fault::failed).pairs.both(), 0u);
}

TEST_F(FaultsTest, ADroppedShadowHasNoFault) {
  samples.drop(pair().b, "busy");
  EXPECT_EQ(of(Fault::failed).pairs.pairs(), 0u);
}

TEST_F(FaultsTest, EmptyAndCutAnswersAreWhole) {
  pair().b.outcome = Outcome::ok_empty;
  for (const auto* reason : {"length", "max_tokens", "limit", "max_output_tokens", "stop", "LENGTH", ""})
    pair().a.finish_reason = samples.names.of(reason);
  EXPECT_EQ(of(Fault::empty).pairs.only_b(), 1u);
  EXPECT_EQ(of(Fault::empty).pairs.pairs(), 8u);
  EXPECT_EQ(of(Fault::length).pairs.only_a(), 4u);
  EXPECT_EQ(of(Fault::length).pairs.pairs(), 8u);
  EXPECT_EQ(of(Fault::failed).pairs.only_b(), 0u);
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
  EXPECT_EQ(found.pairs(), 4u);
  EXPECT_EQ(found.only_b(), 2u);
  EXPECT_EQ(found.only_a(), 1u);
}

TEST_F(FaultsTest, NineAgainstNoneAreAVerdictWhateverComesLater) {
  for (int i = 0; i < 8; ++i) fail(pair().b, Outcome::timeout);
  EXPECT_EQ(of(Fault::failed).finding, statistics::Finding::inconclusive);
  fail(pair().b, Outcome::timeout);
  EXPECT_EQ(of(Fault::failed).finding, statistics::Finding::worse);
  EXPECT_NEAR(of(Fault::failed).pairs.more_in_b(), 102.3, 1e-9);
  for (int i = 0; i < 12; ++i) fail(pair().a, Outcome::timeout);
  EXPECT_EQ(of(Fault::failed).finding, statistics::Finding::worse) << "what was shown stays shown";
  comparison::Options changed = options_of(samples);
  std::swap(changed.a, changed.b);
  EXPECT_EQ(compare(samples, changed).faults[0].finding, statistics::Finding::better);
}

TEST_F(FaultsTest, TheOrderIsThatOfTimeNotOfTheLog) {
  for (int i = 0; i < 12; ++i) fail(pair().b, Outcome::timeout);
  for (int i = 0; i < 12; ++i) fail(pair().a, Outcome::timeout);
  std::vector<samples::Sample> all = samples.all();
  std::ranges::reverse(all);
  const auto reversed = comparison::compare(all, samples.names, options_of(samples));
  EXPECT_EQ(reversed.faults[0].finding, statistics::Finding::worse);
}

TEST_F(FaultsTest, ManyPairsWithoutFaultsAreNotWorse) {
  for (int i = 0; i < 5700; ++i) pair();
  EXPECT_EQ(of(Fault::failed).finding, statistics::Finding::inconclusive);
  for (int i = 0; i < 100; ++i) pair();
  EXPECT_EQ(of(Fault::failed).finding, statistics::Finding::not_worse);
  EXPECT_EQ(of(Fault::length).finding, statistics::Finding::not_worse);
  EXPECT_EQ(of(Fault::tools).finding, statistics::Finding::inconclusive) << "nothing calls tools";
  comparison::Options options = options_of(samples);
  options.fault_margins[0] = 0.0019;
  EXPECT_EQ(compare(samples, options).faults[0].finding, statistics::Finding::inconclusive);
}

TEST_F(FaultsTest, CountFromTheFirstPairButNotOutsideTheDeclaredWindow) {
  for (int i = 0; i < 20; ++i) fail(pair().b, Outcome::timeout);
  comparison::Options options = options_of(samples);
  options.warm_up.seconds = 600;
  EXPECT_EQ(compare(samples, options).pairs, 0u) << "the shadow is cold";
  EXPECT_EQ(compare(samples, options).faults[0].pairs.only_b(), 20u);
  options.from_us = 6 * second;
  options.to_us = 14 * second;
  EXPECT_EQ(compare(samples, options).faults[0].pairs.only_b(), 8u);
  options = open_options_of(samples);
  options.length_us = 5 * second;
  EXPECT_EQ(compare(samples, options).faults[0].pairs.only_b(), 5u);
}

TEST_F(FaultsTest, ASplitHasNoPairs) {
  for (int i = 0; i < 20; ++i) {
    samples.primary(i * second, "gpu0", "fp16");
    fail(samples.primary(i * second, "gpu1", "fp8"), Outcome::timeout);
  }
  for (const FaultPairs& one : compare(samples, options_of(samples)).faults) {
    EXPECT_EQ(one.pairs.pairs(), 0u);
    EXPECT_EQ(one.finding, statistics::Finding::inconclusive);
  }
}

}  // namespace
}  // namespace weir::metrics::compare::pairs

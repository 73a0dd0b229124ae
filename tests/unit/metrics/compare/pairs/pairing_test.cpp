#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <random>

#include "metrics/compare/pairs/pairing.hpp"
#include "tests/unit/metrics/compare/twin_samples.hpp"

namespace weir::metrics::compare::pairs {
namespace {

const WarmUp at_once{.seconds = 0};

/// Each replica holds as much.
KvTokens holding(std::uint64_t tokens) {
  return [tokens](auto, auto) { return tokens; };
}

/// Samples of fp16 and fp8.
class PairingOfTwins : public testing::Test {
 protected:
  /// Pairs all samples so far; the pairs point to them.
  Pairing paired(const sides::Selection& one, const sides::Selection& other, const WarmUp& warm_up = at_once) {
    take();
    return pair_up(all, one, other, warm_up);
  }
  Pairing paired() { return paired(a, b); }
  Pairing warmed(const WarmUp& warm_up, const statistics::Window& window = any_time) {
    take();
    return pair_up(all, a, b, warm_up, window);
  }
  void take() { all.assign(samples.each().begin(), samples.each().end()); }

  TwinSamples samples;
  std::vector<samples::Sample> all;
  const sides::Selection a = samples.config("fp16"), b = samples.config("fp8");
};

TEST_F(PairingOfTwins, AShadowJoinsItsPrimaryByItsId) {
  for (int i = 0; i < 3; ++i) samples.shadow(samples.primary(i * second));
  samples.primary(4 * second);                      // It has no shadow.
  samples.shadow(samples.each()[0]).pair = {9, 9};  // Its primary's line is lost.
  const Pairing pairing = paired();
  EXPECT_EQ(pairing.mode, Mode::mirrored);
  ASSERT_EQ(pairing.pairs.size(), 3u);
  for (const Pair& pair : pairing.pairs) {
    EXPECT_EQ(pair.a->role, Role::primary);
    EXPECT_EQ(pair.b->pair, pair.a->id);
    EXPECT_EQ(pair.at_us, pair.a->dispatched_us);
  }
  ASSERT_EQ(pairing.only_a.size(), 1u);
  EXPECT_EQ(pairing.only_a[0].at_us, 4 * second);
  EXPECT_EQ(pairing.only_b.size(), 1u);
}

TEST_F(PairingOfTwins, TheOtherWayRoundTheSidesChangePlaces) {
  samples.shadow(samples.primary(0));
  const Pairing pairing = paired(b, a);
  EXPECT_EQ(pairing.mode, Mode::mirrored);
  ASSERT_EQ(pairing.pairs.size(), 1u);
  EXPECT_EQ(pairing.pairs[0].a->role, Role::shadow);
  EXPECT_EQ(pairing.pairs[0].b->role, Role::primary);
}

TEST_F(PairingOfTwins, TheBlockIsThatOfThePrimarysDispatch) {
  samples::Sample& primary = samples.primary(5 * second);
  samples::Sample& shadow = samples.shadow(primary);
  shadow.received_us = 6 * second;
  shadow.dispatched_us = 9 * second;
  EXPECT_EQ(paired().pairs[0].at_us, 5 * second);
  EXPECT_EQ(paired(b, a).pairs[0].at_us, 5 * second);
}

TEST_F(PairingOfTwins, AControlTakesThePrimarysPlace) {
  for (int i = 0; i < 4; ++i) {
    const samples::Sample& primary = samples.primary(i * second);
    samples.shadow(primary, "control0", "fp16", "same");
    if (i != 2) samples.shadow(primary);
  }
  const Pairing by_config = paired();
  const Pairing by_shadow =
      paired({sides::By::shadow, samples.names.of("same")}, {sides::By::shadow, samples.names.of("fp8")});
  for (const Pairing* pairing : {&by_config, &by_shadow}) {
    EXPECT_EQ(pairing->mode, Mode::control);
    ASSERT_EQ(pairing->pairs.size(), 3u);
    for (const Pair& pair : pairing->pairs) {
      EXPECT_EQ(samples.names.text(pair.a->replica), "control0");
      EXPECT_EQ(samples.names.text(pair.b->replica), "cand0");
      EXPECT_EQ(pair.a->pair, pair.b->pair);
      EXPECT_EQ(pair.at_us % second, 0);  // The primary's dispatch.
    }
    EXPECT_EQ(pairing->only_a.size(), 1u);
  }
}

TEST(Pairing, AControlThatHasHardlyRunTakesNobodysPlace) {
  for (const auto& [controlled, mode] : {std::pair(4, Mode::mirrored), std::pair(6, Mode::control)}) {
    TwinSamples samples;
    for (int i = 0; i < 10; ++i) {
      const samples::Sample& primary = samples.primary(i * second);
      if (i < controlled) samples.shadow(primary, "control0", "fp16", "same");
      samples.shadow(primary);
    }
    const std::vector<samples::Sample> all = samples.all();
    EXPECT_EQ(pair_up(all, samples.config("fp16"), samples.config("fp8"), at_once).mode, mode) << controlled;
  }
}

TEST_F(PairingOfTwins, ASideIsNeverPairedWithItself) {
  samples.shadow(samples.primary(0));
  const Pairing pairing = paired(samples.config("fp8"), {sides::By::replica, samples.names.of("cand0")});
  EXPECT_TRUE(pairing.pairs.empty());
  EXPECT_EQ(pairing.mode, Mode::split);
}

TEST_F(PairingOfTwins, AnAnswerThatBothSidesHoldIsNoPair) {
  for (int i = 0; i < 10; ++i) {
    const samples::Sample& primary = samples.primary(i * second);
    if (i < 6) samples.shadow(primary);
    samples.shadow(primary, "control0", "fp16", "same");
  }
  const Pairing pairing = paired({sides::By::shadow, samples.names.of("same")}, {sides::By::role, 0, Role::shadow});
  EXPECT_EQ(pairing.pairs.size(), 6u);
}

TEST_F(PairingOfTwins, WithoutCommonRequestsItIsASplit) {
  for (int i = 0; i < 6; ++i) samples.primary(i * second, i % 2 ? "gpu1" : "gpu0", i % 2 ? "fp8" : "fp16");
  const Pairing pairing = paired();
  EXPECT_EQ(pairing.mode, Mode::split);
  EXPECT_EQ(pairing.only_a.size(), 3u);
  EXPECT_EQ(pairing.only_b.size(), 3u);
  EXPECT_FALSE(pairing.warm_us);
}

TEST_F(PairingOfTwins, SelectsByRoleAndReplica) {
  samples.shadow(samples.primary(0));
  const sides::Selection primary{sides::By::role, 0, Role::primary}, shadow{sides::By::role, 0, Role::shadow};
  EXPECT_EQ(paired(primary, shadow).pairs.size(), 1u);
  EXPECT_EQ(paired({sides::By::replica, samples.names.of("gpu0")}, {sides::By::replica, samples.names.of("cand0")})
                .pairs.size(),
            1u);
  EXPECT_EQ(primary.label(samples.names), "primary");
  EXPECT_EQ(samples.config("fp8").label(samples.names), "fp8");
}

TEST_F(PairingOfTwins, OneAnswerARequestCounts) {
  const samples::Sample& primary = samples.primary(0);
  samples.shadow(primary);
  samples.shadow(primary, "cand1");
  const Pairing pairing = paired();
  EXPECT_EQ(pairing.pairs.size(), 1u);
  EXPECT_EQ(pairing.repeated, 1u);
}

TEST_F(PairingOfTwins, ASampleWithoutIdIsNotJoined) {
  samples::Sample& primary = samples.primary(0);
  samples.shadow(primary).pair = samples::Id{};
  primary.id = samples::Id{};
  EXPECT_TRUE(paired().pairs.empty());
}

TEST_F(PairingOfTwins, IsTheSameForEveryOrder) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200; ++i) {
    const samples::Sample& primary = samples.primary(static_cast<std::int64_t>(random() % 50) * second);
    if (random() % 5) samples.shadow(primary);
    if (random() % 9 == 0) samples.shadow(primary, "cand1");
  }
  all = samples.all();
  const auto ids = [&] {
    const Pairing pairing = pair_up(all, a, b, at_once);
    std::vector<samples::Id> result;
    for (const Pair& pair : pairing.pairs) result.insert(result.end(), {pair.a->id, pair.b->id});
    for (const Single& one : pairing.only_a) result.push_back(one.sample->id);
    return result;
  };
  const std::vector<samples::Id> first = ids();
  for (int i = 0; i < 20; ++i) {
    std::shuffle(all.begin(), all.end(), random);
    EXPECT_EQ(ids(), first);
  }
}

TEST_F(PairingOfTwins, AShadowIsWarmTenMinutesAfterItsFirstRequest) {
  for (int i = 0; i < 30; ++i) samples.shadow(samples.primary(i * 60 * second));
  samples.drop(samples.each()[1], "in_flight");  // It was not sent, so it warmed nothing.
  EXPECT_EQ(warmed({}).warm_us, 11 * 60 * second);
  Mirrored mirrored;  // Its first request is not among these.
  samples::Sample earlier = samples.each()[3];
  earlier.dispatched_us = -60 * second;
  mirrored.add(earlier);
  EXPECT_EQ(warmed({600, &mirrored}).warm_us, 9 * 60 * second);
  EXPECT_EQ(paired().warm_us, 60 * second);
}

TEST_F(PairingOfTwins, AndOnceItHasPrefilledWhatItsMemoryHolds) {
  for (int i = 0; i < 30; ++i) {
    samples::Sample& shadow = samples.shadow(samples.primary(i * 60 * second));
    shadow.cached_tokens = i % 2 ? 400 : samples::unknown_count;  // 500, 100, 500, 100, ...
  }
  samples.each()[1].served = false;  // The first failed before its first token.
  samples.each()[1].ttft = samples::unknown;
  const auto paired_with = [&](std::uint64_t kv_tokens, double seconds) {
    return warmed({.seconds = seconds, .kv_tokens = holding(kv_tokens)});
  };
  const auto warm = [&](std::uint64_t kv_tokens, double seconds) {
    return *paired_with(kv_tokens, seconds).warm_us / second / 60;
  };
  EXPECT_EQ(warm(0, 1), 1);
  EXPECT_EQ(warm(100, 1), 2);  // Request 1 has prefilled 100.
  EXPECT_EQ(warm(101, 1), 3);  // Request 2 has prefilled 500.
  EXPECT_EQ(warm(700, 1), 4);
  EXPECT_EQ(warm(700, 600), 10);
  EXPECT_EQ(warm(1 << 20, 1), never_warm / second / 60);
  EXPECT_EQ(warm(1 << 20, 0), 0) << "without a warm-up every pair counts";
  const Warm never = paired_with(1 << 20, 1).warm_b;
  EXPECT_TRUE(never.lacks_tokens());
  EXPECT_EQ(never.kv_tokens, 1u << 20);
  EXPECT_EQ(never.prefilled, 15u * 100 + 14u * 500);
  EXPECT_FALSE(paired_with(700, 1).warm_b.lacks_tokens());
  EXPECT_FALSE(paired_with(1 << 20, 1).warm_a.lacks_tokens()) << "a primary is warm";
}

TEST_F(PairingOfTwins, WhatItHasPrefilledBeforeTheseRequestsCountsToo) {
  for (int i = 0; i < 10; ++i) samples.shadow(samples.primary(i * 60 * second));
  all = samples.all();
  const std::vector<samples::Sample> last(all.begin() + 10, all.end());
  Mirrored mirrored;
  for (const samples::Sample& sample : all) mirrored.add(sample);
  EXPECT_EQ(warmed({1, nullptr, holding(3000)}).warm_us, 6 * 60 * second);
  EXPECT_EQ(pair_up(last, a, b, {1, nullptr, holding(3000)}).warm_us, never_warm);
  EXPECT_EQ(pair_up(last, a, b, {1, &mirrored, holding(3000)}).warm_us, 6 * 60 * second);
}

TEST_F(PairingOfTwins, WhatTheReplicasOfASideHoldIsAddedUpWhereItIsKnown) {
  for (int i = 0; i < 30; ++i) {
    samples.shadow(samples.primary(i * 60 * second));
    samples.shadow(samples.primary(i * 60 * second, "gpu1"), "cand1");
    samples.shadow(samples.primary(i * 60 * second, "gpu2"), "gone");
  }
  const auto cand0 = samples.names.of("cand0"), cand1 = samples.names.of("cand1"), fp8 = samples.names.of("fp8");
  const auto warm = [&](KvTokens kv_tokens) { return warmed({1, nullptr, std::move(kv_tokens)}).warm_b; };
  const Warm both = warm([&](auto replica, auto config) -> std::optional<std::uint64_t> {
    EXPECT_EQ(config, fp8);
    if (replica == cand0) return 2000;
    if (replica == cand1) return 4000;
    return std::nullopt;
  });
  EXPECT_EQ(both.kv_tokens, 6000u);
  EXPECT_EQ(both.from_us, 6 * 60 * second) << "each prefills 500 a minute, and what the third does is left out";
  EXPECT_EQ(warm([](auto, auto) { return std::nullopt; }).kv_tokens, 0u);
  EXPECT_EQ(warm({}).from_us, second);
}

TEST_F(PairingOfTwins, AShadowWithoutPairsInTheWindowKeepsNoOtherCold) {
  for (int i = 0; i < 360; ++i) {
    const samples::Sample& primary = samples.primary(i * 60 * second);
    if (i < 120) samples.shadow(primary, "cand0", "fp8", "first");
    if (i >= 300) samples.shadow(primary, "cand1", "fp8", "later");
  }
  const auto warm = [&](std::int64_t from, std::int64_t to) {
    return *warmed({600, nullptr, holding(1000)}, {from * 60 * second, to * 60 * second}).warm_us / second / 60;
  };
  EXPECT_EQ(warm(0, 120), 10);
  EXPECT_EQ(warm(0, 300), 10);
  EXPECT_EQ(warm(0, 301), 310);
  EXPECT_EQ(warm(310, 400), 310);
  EXPECT_EQ(warm(200, 250), 310) << "without pairs all of the side decide";
  EXPECT_EQ(warmed({}).warm_us, 310 * 60 * second);
  EXPECT_EQ(warmed({600, nullptr, holding(1000)}, {0, 120 * 60 * second}).warm_b.kv_tokens, 1000u);
  EXPECT_EQ(warmed({600, nullptr, holding(1000)}).warm_b.kv_tokens, 2000u);
}

TEST_F(PairingOfTwins, WhatAShadowWasSentBeforeItWasSwitchedOnDoesNotWarmIt) {
  for (int i = 0; i < 10; ++i) samples.shadow(samples.primary(i * 60 * second));
  all = samples.all();
  Mirrored mirrored;
  for (const samples::Sample& sample : all) mirrored.add(sample);
  const auto warm_from = [&] { return mirrored.warm(b, {}, 0, {}).from_us; };
  EXPECT_EQ(warm_from(), 0);
  mirrored.begin_anew(all[1].shadow, 150 * second);
  EXPECT_EQ(warm_from(), never_warm);
  for (const samples::Sample& sample : all) mirrored.add(sample);  // Some end later.
  EXPECT_EQ(warm_from(), 180 * second);
  mirrored.begin_anew(all[1].shadow + 1, 1000 * second);
  EXPECT_EQ(warm_from(), 180 * second) << "another shadow";
}

TEST_F(PairingOfTwins, AShadowThatIsWarmAtOnceLeavesNoPairOutThoughItWasSentAfterItsPrimary) {
  for (int i = 0; i < 30; ++i) samples.shadow(samples.primary(i * 60 * second)).dispatched_us += 3000;
  EXPECT_EQ(paired().warm_us, 0);
  EXPECT_EQ(paired(b, a).warm_us, 0);
  EXPECT_EQ(warmed({}).warm_us, 10 * 60 * second) << "the pair that was sent ten minutes later";
}

TEST_F(PairingOfTwins, OfTwoShadowsBothHaveToBeWarm) {
  for (int i = 0; i < 10; ++i) {
    const samples::Sample& primary = samples.primary(10 * i * second);
    samples.shadow(primary, "control0", "fp16", "same");
    if (i >= 7) samples.shadow(primary);
  }
  EXPECT_EQ(warmed({.seconds = 20}).warm_us, 90 * second);
  EXPECT_EQ(paired(b, a, {.seconds = 20}).warm_us, 90 * second);
}

TEST_F(PairingOfTwins, OfTwoShadowsOnOneSideTheOneThatBeganLastIsTheLastToBeWarm) {
  for (int i = 0; i < 20; ++i) {
    samples.shadow(samples.primary(i * second));
    if (i >= 4) samples.shadow(samples.primary(i * second, "gpu1"), "cand1", "fp8", "second");
  }
  EXPECT_EQ(warmed({.seconds = 5}).warm_us, 9 * second);
}

TEST(Pairing, TwinsHaveOneReplicaOnEachSide) {
  struct Case {
    const char* name;
    std::vector<std::pair<const char*, const char*>> replicas;
    bool twins;
  };
  for (const auto& c : std::vector<Case>{
           {"one of each", {{"gpu0", "cand0"}}, true},
           {"two twins", {{"gpu0", "cand0"}, {"gpu1", "cand1"}}, true},
           {"a sample of a pool", {{"gpu0", "cand0"}, {"gpu1", "cand0"}}, false},
           {"one spread over two", {{"gpu0", "cand0"}, {"gpu0", "cand1"}}, false},
           {"crossed", {{"gpu0", "cand0"}, {"gpu1", "cand1"}, {"gpu0", "cand1"}}, false},
       }) {
    TwinSamples samples;
    for (int i = 0; i < 300; ++i) {
      const auto& [a, b] = c.replicas[static_cast<std::size_t>(i) % c.replicas.size()];
      samples.shadow(samples.primary(i * second, a), b);
    }
    const std::vector<samples::Sample> all = samples.all();
    const Pairing pairing = pair_up(all, samples.config("fp16"), samples.config("fp8"), at_once);
    EXPECT_EQ(twins(pairing.pairs), c.twins) << c.name;
  }
  EXPECT_TRUE(twins({}));  // Nothing speaks against it.
}

TEST_F(PairingOfTwins, AFewRequestsThatWereTriedAgainElsewhereLeaveTwinsTwins) {
  for (int i = 0; i < 1000; ++i) samples.shadow(samples.primary(i * second, i % 100 ? "gpu0" : "gpu1"));
  EXPECT_TRUE(twins(paired().pairs));
  for (int i = 0; i < 10; ++i) all[static_cast<std::size_t>(i) * 20 + 2].replica = samples.names.of("gpu1");
  EXPECT_FALSE(twins(pair_up(all, a, b, at_once).pairs));
}

constexpr double endless = std::numeric_limits<double>::infinity();

samples::Sample answer() {
  samples::Sample sample;
  sample.served = sample.stream = true;
  sample.output_tokens = 100;
  sample.ttft = 0.5F;
  sample.tpot = 0.25F;
  sample.e2e = 4;
  return sample;
}

/// Gaps of these milliseconds, and 99 of `usual_ms`.
samples::Sample with_gaps(int usual_ms, std::initializer_list<int> longest_ms) {
  record::GapSketch sketch;
  sketch.add(std::chrono::milliseconds(usual_ms), 99);
  for (const int one : longest_ms) sketch.add(std::chrono::milliseconds(one));
  samples::Sample sample = answer();
  sample.gaps = {sketch.bins().begin(), sketch.bins().end()};
  std::ranges::reverse(sample.gaps);  // A log may have them in any order.
  return sample;
}

TEST(Values, AreThoseOfAWholeAnswer) {
  samples::Sample sample = answer();
  EXPECT_EQ(value_of(Quantity::ttft, sample), 0.5);
  EXPECT_EQ(value_of(Quantity::tpot, sample), 0.25);
  EXPECT_EQ(value_of(Quantity::output_tokens, sample), 100);
  EXPECT_FALSE(value_of(Quantity::e2e, sample)) << "it was streamed";
  sample.stream = false;
  EXPECT_EQ(value_of(Quantity::e2e, sample), 4);
  sample.served = false;
  EXPECT_EQ(value_of(Quantity::ttft, sample), 0.5) << "its first token came";
  for (const Quantity one : {Quantity::tpot, Quantity::e2e, Quantity::output_tokens})
    EXPECT_FALSE(value_of(one, sample));
}

TEST(Values, TpotTakesSixteenTokensAndAnEmptyAnswerIsOneTokenLong) {
  samples::Sample sample = answer();
  sample.output_tokens = 16;
  EXPECT_TRUE(value_of(Quantity::tpot, sample));
  sample.output_tokens = 15;
  EXPECT_FALSE(value_of(Quantity::tpot, sample));
  sample.output_tokens = 0;
  EXPECT_EQ(value_of(Quantity::output_tokens, sample), 1);
  sample.output_tokens = samples::unknown_count;
  EXPECT_FALSE(value_of(Quantity::output_tokens, sample));
  EXPECT_FALSE(value_of(Quantity::tpot, sample));
}

TEST(Values, ThatAreNoTimesAreNone) {
  for (const float odd : {0.0F, -1.0F, std::numeric_limits<float>::infinity(), samples::unknown}) {
    samples::Sample sample = answer();
    sample.stream = false;
    sample.ttft = sample.tpot = sample.e2e = odd;
    for (const Quantity one : {Quantity::ttft, Quantity::tpot, Quantity::e2e}) EXPECT_FALSE(value_of(one, sample));
  }
}

TEST(Stalls, AGapIsOneIfItIsLongByItselfAndBesideTheOthers) {
  EXPECT_EQ(stalled_s(with_gaps(20, {}), endless, endless), 0);
  EXPECT_EQ(stalled_s(with_gaps(20, {240}), endless, endless), 0);
  EXPECT_NEAR(stalled_s(with_gaps(20, {260}), endless, endless), 0.26, 0.26 * 0.008);
  EXPECT_EQ(stalled_s(with_gaps(30, {260}), endless, endless), 0) << "ten times as long as usual is 300 ms";
  EXPECT_NEAR(stalled_s(with_gaps(30, {2000, 3000, 260}), endless, endless), 5, 5 * 0.008);
}

TEST(Stalls, AWaitIsOneByWhatItHasAboveTheLongestUsualOne) {
  samples::Sample sample = answer();
  sample.ttft = 3;
  EXPECT_EQ(stalled_s(sample, 1, endless), 2);
  EXPECT_EQ(stalled_s(sample, 3, endless), 0);
  EXPECT_EQ(stalled_s(sample, endless, 1), 0) << "nobody knows what is usual; and it was streamed";
  sample.stream = false;
  sample.ttft = samples::unknown;
  EXPECT_EQ(stalled_s(sample, 1, 1.5), 2.5);
}

TEST(Stalls, WhoLeftWithoutATokenHasWaited) {
  samples::Sample sample = answer();
  sample.outcome = Outcome::client_abort;
  sample.served = false;
  sample.lasted = 7;
  EXPECT_EQ(stalled_s(sample, 2, endless), sample.ttft > 2 ? sample.ttft - 2 : 0) << "he had a token";
  sample.ttft = samples::unknown;
  EXPECT_EQ(stalled_s(sample, 2, endless), 5);
  EXPECT_EQ(stalled_s(sample, endless, 2), 0);
  sample.stream = false;
  EXPECT_EQ(stalled_s(sample, endless, 2), 5);
  sample.outcome = Outcome::rejected;
  EXPECT_EQ(stalled_s(sample, 2, 2), 0);
}

TEST(Stalls, OfOneRequestLastTenSecondsAtMost) {
  samples::Sample sample = with_gaps(20, {8000});
  sample.ttft = 4;
  EXPECT_NEAR(stalled_s(sample, 3, endless), 9, 0.1);
  EXPECT_EQ(stalled_s(sample, 1, endless), 10);
  EXPECT_EQ(stalled_s(with_gaps(20, {600'000}), endless, endless), 10);
}

}  // namespace
}  // namespace weir::metrics::compare::pairs

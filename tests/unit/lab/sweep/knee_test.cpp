#include "lab/sweep/knee.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <vector>

#include "lab/engine/engine_preset.hpp"

namespace weir::lab::sweep {
namespace {

constexpr std::uint64_t doublings[]{1, 2, 4, 8, 16, 32, 64, 128};

/// Returns the curve of an engine whose step takes `base` up to `bend` sequences and grows in proportion beyond.
std::vector<Operation> curve(double bend) {
  std::vector<Operation> operations;
  for (const std::uint64_t batch : doublings) {
    const double latency = std::max(1.0, static_cast<double>(batch) / bend);
    operations.push_back({batch, latency, static_cast<double>(batch) / latency});
  }
  return operations;
}

TEST(Knee, IsWhereLatencyBeginsToGrowIfThroughputStopsThere) {
  for (const std::uint64_t bend : {2u, 8u, 32u, 64u}) {
    const auto knee = knee_of(curve(static_cast<double>(bend)));
    EXPECT_EQ(knee.state, Knee::State::found);
    EXPECT_EQ(knee.concurrency, bend);
  }
}

TEST(Knee, IsAtTheFirstIfThroughputWasNeverFree) { EXPECT_EQ(knee_of(curve(1)).concurrency, 1u); }

TEST(Knee, AtTheLowestNumberTriedMayLieBelowIt) {
  const auto all = curve(2);
  const auto knee = knee_of(std::span(all).subspan(2));
  EXPECT_EQ(knee.state, Knee::State::at_or_below);
  EXPECT_EQ(knee.concurrency, std::nullopt);
}

TEST(Knee, IsNotReachedWhileThePowerStillGrows) {
  const auto knee = knee_of(curve(1000));
  EXPECT_EQ(knee.state, Knee::State::not_reached);
  EXPECT_EQ(knee.concurrency, std::nullopt);
}

TEST(Knee, NeedsThreePoints) {
  const auto all = curve(2);
  for (const std::size_t points : {0u, 1u, 2u}) {
    EXPECT_EQ(knee_of(std::span(all).first(points)).state, Knee::State::too_few);
  }
  EXPECT_EQ(knee_of(std::span(all).first(3)).state, Knee::State::found);
}

TEST(Knee, DoesNotDependOnUnits) {
  auto operations = curve(16);
  for (auto& one : operations) {
    one.latency *= 1e3;
    one.throughput *= 60;
  }
  EXPECT_EQ(knee_of(operations).concurrency, 16u);
}

TEST(Knee, OfEqualPowerIsTheLowest) {
  const std::vector<Operation> operations{{1, 1, 1}, {2, 2, 4}, {4, 3, 6}, {8, 9, 7}};
  EXPECT_EQ(knee_of(operations).concurrency, 2u);
}

/// Beyond the knee each step raises latency by the larger factor, up to it throughput.
TEST(Knee, PartsWhatTheRuleSaysItParts) {
  const auto operations = curve(32);
  const auto knee = *knee_of(operations).concurrency;
  for (std::size_t i = 1; i < operations.size(); ++i) {
    const double throughput = operations[i].throughput / operations[i - 1].throughput;
    const double latency = operations[i].latency / operations[i - 1].latency;
    EXPECT_EQ(throughput > latency, operations[i].concurrency <= knee) << operations[i].concurrency;
  }
}

/// The published charts have decode flat to 32 sequences and bent from there to 64 (simulated cards, model time).
TEST(KneeOfThePresets, LiesBetweenThirtyTwoAndSixtyFourInDecode) {
  for (const engine::EnginePreset& preset : engine::engine_presets()) {
    std::vector<Operation> operations;
    for (const std::uint64_t batch : doublings) {
      const auto step = engine::decode_step(preset.settings, static_cast<std::uint32_t>(batch), 550);
      const double seconds = std::chrono::duration<double>(step).count();
      operations.push_back({batch, seconds, static_cast<double>(batch) / seconds});
    }
    const auto knee = knee_of(operations);
    ASSERT_EQ(knee.state, Knee::State::found) << preset.name;
    EXPECT_GE(*knee.concurrency, 32u) << preset.name;
    EXPECT_LE(*knee.concurrency, 64u) << preset.name;
  }
}

/// Prefill is linear in the batch, so its throughput is paid for from the first prompts on.
TEST(KneeOfThePresets, IsLowInPrefill) {
  for (const engine::EnginePreset& preset : engine::engine_presets()) {
    std::vector<Operation> operations;
    for (const std::uint64_t batch : doublings) {
      const auto took = engine::time_to_first_token(preset.settings, 550 * batch);
      const double seconds = std::chrono::duration<double>(took).count();
      operations.push_back({batch, seconds, 550.0 * static_cast<double>(batch) / seconds});
    }
    const auto knee = knee_of(operations);
    ASSERT_EQ(knee.state, Knee::State::found) << preset.name;
    EXPECT_LE(*knee.concurrency, 2u) << preset.name;
  }
}

}  // namespace
}  // namespace weir::lab::sweep

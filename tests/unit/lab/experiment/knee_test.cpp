#include "lab/experiment/knee.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "lab/engine/engine_preset.hpp"

namespace weir::lab::experiment {
namespace {

constexpr std::uint64_t doublings[]{1, 2, 4, 8, 16, 32, 64, 128};

/// Returns the operations whose latency is `latency_of(batch)` and whose throughput is `each * batch` over it.
template <class LatencyOf>
std::vector<Operation> operations(const LatencyOf& latency_of, double each = 1) {
  std::vector<Operation> made;
  for (const std::uint64_t batch : doublings) {
    const double latency = latency_of(batch);
    made.push_back({batch, latency, each * static_cast<double>(batch) / latency});
  }
  return made;
}

/// Returns the curve of an engine whose step takes `base` up to `bend` sequences and grows in proportion beyond.
std::vector<Operation> curve(double bend, double base = 1) {
  return operations([&](std::uint64_t batch) { return base * std::max(1.0, static_cast<double>(batch) / bend); });
}

TEST(Knee, IsWhereLatencyBeginsToGrowIfThroughputStopsThere) {
  for (const std::uint64_t bend : {1u, 2u, 8u, 32u, 64u}) {
    const auto knee = knee_of(curve(static_cast<double>(bend)));
    EXPECT_EQ(knee.state, Knee::State::found);
    EXPECT_EQ(knee.concurrency, bend) << "at the first if throughput was never free";
    EXPECT_EQ(knee_of(curve(static_cast<double>(bend), 1e3)).concurrency, bend) << "it does not depend on units";
  }
  const std::vector<Operation> equal{{1, 1, 1}, {2, 2, 4}, {4, 3, 6}, {8, 9, 7}};
  EXPECT_EQ(knee_of(equal).concurrency, 2u) << "of equal power it is the lowest";
}

TEST(Knee, ThatLiesOutsideWhatWasTriedHasNoNumber) {
  const auto all = curve(2);
  const auto low = knee_of(std::span(all).subspan(2)), high = knee_of(curve(1000));
  EXPECT_EQ(low.state, Knee::State::at_or_below);
  EXPECT_EQ(high.state, Knee::State::not_reached);
  EXPECT_EQ(low.concurrency, std::nullopt);
  EXPECT_EQ(high.concurrency, std::nullopt);
}

TEST(Knee, NeedsThreePoints) {
  const auto all = curve(2);
  for (const std::size_t points : {0u, 1u, 2u}) {
    EXPECT_EQ(knee_of(std::span(all).first(points)).state, Knee::State::too_few);
  }
  EXPECT_EQ(knee_of(std::span(all).first(3)).state, Knee::State::found);
}

/// The published charts have decode flat to 32 sequences and bent from there to 64 (simulated cards, model time).
/// Prefill is linear in the batch, so its throughput is paid for from the first prompts on.
TEST(KneeOfThePresets, LiesBetweenThirtyTwoAndSixtyFourInDecodeAndLowInPrefill) {
  using Seconds = std::chrono::duration<double>;
  for (const engine::EnginePreset& preset : engine::engine_presets()) {
    const auto decode = knee_of(operations([&](std::uint64_t batch) {
      return Seconds(engine::decode_step(preset.settings, static_cast<std::uint32_t>(batch), 550)).count();
    }));
    const auto prefill = knee_of(operations(
        [&](std::uint64_t batch) { return Seconds(time_to_first_token(preset.settings, 550 * batch)).count(); }, 550));
    ASSERT_EQ(decode.state, Knee::State::found) << preset.name;
    ASSERT_EQ(prefill.state, Knee::State::found) << preset.name;
    EXPECT_GE(*decode.concurrency, 32u) << preset.name;
    EXPECT_LE(*decode.concurrency, 64u) << preset.name;
    EXPECT_LE(*prefill.concurrency, 2u) << preset.name;
  }
}

}  // namespace
}  // namespace weir::lab::experiment

// How full a pool is, for autoscalers: from what waits, and what its replicas have and can take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/metrics/series/exposition_scrape.hpp"

namespace weir::metrics::series {
namespace {

struct Has {
  std::uint32_t in_flight = 0;
  std::uint64_t tokens = 0;
  std::optional<std::uint32_t> max_in_flight{};
  std::optional<std::uint64_t> kv_tokens{};
  ReplicaState state = ReplicaState::up;
};

std::optional<double> of(const Waiting& waiting, const std::vector<Has>& replicas) {
  std::vector<ReplicaGauges> gauges(replicas.size());
  std::vector<const ReplicaGauges*> members;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    gauges[i].in_flight = replicas[i].in_flight;
    gauges[i].resident_tokens = replicas[i].tokens;
    gauges[i].max_in_flight = replicas[i].max_in_flight;
    gauges[i].kv_tokens = replicas[i].kv_tokens;
    gauges[i].state = replicas[i].state;
    members.push_back(&gauges[i]);
  }
  return saturation(waiting, members);
}

TEST(Saturation, IsTheLargerShareOfTheBoundsThatAreKnown) {
  using enum ReplicaState;
  struct Line {
    Waiting waiting;
    std::vector<Has> replicas;
    std::optional<double> expected;
  };
  const std::vector<Line> lines{
      {{}, {}, {}},
      {{3, 90}, {}, {}},
      {{}, {{8, 100, {}, {}}}, {}},
      {{}, {{0, 0, 10, 1000}}, 0},
      {{}, {{5, 100, 10, 1000}}, 0.5},
      {{}, {{5, 900, 10, 1000}}, 0.9},
      {{5, 0}, {{10, 100, 10, 1000}}, 1.5},
      {{0, 3000}, {{1, 0, 10, 1000}}, 3},
      {{}, {{5, 900, 10, {}}}, 0.5},
      {{}, {{5, 900, {}, 1000}}, 0.9},
      // A bound that one of them lacks says nothing of the pool.
      {{}, {{5, 100, 10, 1000}, {5, 100, {}, 1000}}, 0.1},
      {{}, {{5, 100, 10, {}}, {5, 100, {}, 1000}}, {}},
      // Who is out takes nothing; what it still has is wanted all the same.
      {{}, {{5, 100, 10, 1000}, {5, 100, 10, 1000, down}}, 1},
      {{}, {{5, 100, 10, 1000}, {5, 100, 10, 1000, ejected}}, 1},
      {{}, {{5, 100, 10, 1000}, {5, 100, {}, {}, draining}}, 1},
      {{}, {{5, 100, 10, 1000}, {5, 100, 10, 1000, starting}}, 0.5},
      {{4, 40}, {{0, 0, 10, 1000, down}}, {}},
  };
  for (std::size_t i = 0; i < lines.size(); ++i)
    EXPECT_EQ(of(lines[i].waiting, lines[i].replicas), lines[i].expected) << "line " << i;
}

TEST(Saturation, FallsWithEachReplicaAndGrowsWithEachRequest) {
  std::mt19937_64 random(20261126);
  const auto up_to = [&random](std::uint64_t most) {
    return std::uniform_int_distribution<std::uint64_t>(0, most)(random);
  };
  for (int round = 0; round < 2000; ++round) {
    const Waiting waiting{up_to(50), up_to(20'000)};
    std::vector<Has> replicas;
    for (auto left = 1 + up_to(7); left > 0; --left)
      replicas.push_back({static_cast<std::uint32_t>(up_to(64)), up_to(60'000),
                          static_cast<std::uint32_t>(1 + up_to(64)), 1 + up_to(60'000),
                          static_cast<ReplicaState>(up_to(4))});
    const auto now = of(waiting, replicas);
    const bool any = std::ranges::any_of(
        replicas, [](const Has& one) { return one.state == ReplicaState::up || one.state == ReplicaState::starting; });
    ASSERT_EQ(now.has_value(), any);
    if (!now) continue;
    EXPECT_GE(*now, 0);
    EXPECT_GT(*of({waiting.requests + 1000, waiting.tokens + 1'000'000}, replicas), *now);
    auto twice = replicas;
    twice.insert(twice.end(), replicas.begin(), replicas.end());
    EXPECT_NEAR(*of({2 * waiting.requests, 2 * waiting.tokens}, twice), *now, 1e-9) << "twice of everything is as full";
    auto more = replicas;
    more.push_back({0, 0, 64, 60'000});
    EXPECT_LE(*of(waiting, more), *now);
    std::ranges::shuffle(replicas, random);
    EXPECT_DOUBLE_EQ(*of(waiting, replicas), *now);
  }
}

}  // namespace
}  // namespace weir::metrics::series

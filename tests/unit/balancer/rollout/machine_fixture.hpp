// A machine of rollouts whose clock is the test's.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <variant>

#include "balancer/rollout/machine.hpp"

namespace weir::balancer::rollout::steps {

using config::Seconds;
inline Moment at(double seconds) {
  return Moment{} + std::chrono::duration_cast<Moment::duration>(std::chrono::duration<double>(10'000 + seconds));
}

inline config::Rollout settings(bool shadow = true) {
  config::Rollout all;
  all.name = "fp8";
  all.pool = "chat";
  all.candidate = "new";
  all.slo = "fast";
  if (shadow) all.shadow = "mirror", all.steps.push_back({true, 0, Seconds(60)});
  all.steps.insert(all.steps.end(), {{false, 0.05, Seconds(30)}, {false, 0.5, Seconds(30)}, {false, 1, Seconds(0)}});
  all.unknown_limit = Seconds(300);
  return all;
}

class RolloutMachine : public testing::Test {
 protected:
  void begin(bool shadow = true) {
    machine = Machine(settings(shadow));
    expect_move(machine.start(), Reason::start);
    tick(Word::unknown, 0);
  }
  /// A second after another; stops at a move.
  std::optional<Move> tick(Word gate, int seconds = 1) {
    std::optional<Move> move;
    for (int i = 0; i < std::max(1, seconds) && !move; ++i) {
      if (seconds > 0) now += 1;
      move = machine.tick({at(now), gate, "ttft: why", {}, {}, false});
    }
    return move;
  }
  std::optional<Move> tick_with(Counts failures, Counts misses = {}) {
    now += 1;
    return machine.tick({at(now), Word::unknown, "", failures, misses, false});
  }
  void expect_move(const Answer& answer, Reason reason) {
    const auto* const move = std::get_if<Move>(&answer);
    ASSERT_NE(move, nullptr) << std::get<std::string>(answer);
    EXPECT_EQ(move->reason, reason);
  }
  void expect_move(const std::optional<Move>& move, Reason reason, const std::string& line = "") {
    ASSERT_TRUE(move);
    EXPECT_EQ(name_of(move->reason), name_of(reason));
    EXPECT_THAT(move->line, testing::HasSubstr(line));
  }
  void expect(State state, double share) {
    EXPECT_EQ(name_of(machine.standing().state), name_of(state));
    EXPECT_EQ(machine.share(), share);
  }

  Machine machine{settings()};
  double now = 0;
};

}  // namespace weir::balancer::rollout::steps

#include "proxy/control/steady_wall.hpp"

#include "tests/unit/proxy/control/mirrored_history.hpp"

namespace weir::proxy::control {
namespace {

constexpr std::int64_t hour_us = 3'600'000'000;

metrics::Moment at(std::int64_t us) { return metrics::Moment(std::chrono::microseconds(us)); }

TEST(SteadyWall, GoesOnOverAStepBackAndFollowsAStepForward) {
  SteadyWall wall;
  EXPECT_EQ(wall.ahead_us(50 * hour_us, at(10 * hour_us)), 0);
  EXPECT_EQ(wall.ahead_us(51 * hour_us, at(11 * hour_us)), 0);
  EXPECT_EQ(wall.ahead_us(51 * hour_us, at(12 * hour_us)), hour_us) << "the clock was put back by an hour";
  EXPECT_EQ(wall.ahead_us(), hour_us);
  EXPECT_EQ(wall.ahead_us(52 * hour_us, at(13 * hour_us)), hour_us);
  EXPECT_EQ(wall.ahead_us(54 * hour_us, at(14 * hour_us)), 0) << "and forward by one";
  EXPECT_EQ(wall.ahead_us(60 * hour_us, at(15 * hour_us)), 0);
  EXPECT_EQ(wall.ahead_us(60 * hour_us, at(15 * hour_us)), 0);
}

TEST(SteadyWall, TakesWhatLiesBetweenTwoReadingsForNoStep) {
  SteadyWall wall;
  wall.ahead_us(50 * hour_us, at(10 * hour_us));
  EXPECT_EQ(wall.ahead_us(50 * hour_us - 900'000, at(10 * hour_us)), 0);
  EXPECT_EQ(wall.ahead_us(50 * hour_us, at(10 * hour_us)), 0);
}

class HistoryOverAStepBack : public MirroredHistory {
 protected:
  HistoryOverAStepBack() : MirroredHistory(0) {}

  /// Adds request `i`, which came `i` seconds after the start, while the wall clock was `back` behind.
  void add_at(int i, std::chrono::seconds back) {
    change = [this, i, back](auto& primary, auto& shadow) {
      for (auto* one : {&primary, &shadow}) {
        one->time += std::chrono::hours(100) - back;
        one->received = one->sent.emplace(start + std::chrono::seconds(i));
        one->answer.first_token = one->received + std::chrono::milliseconds(100);
      }
    };
    add(i);
  }
};

TEST_F(HistoryOverAStepBack, AShadowThatIsSwitchedOnBeforeItGetsWarmAllTheSame) {
  add_at(0, {});
  history.begin_anew("candidate", 100 * hour_us);
  constexpr std::chrono::hours back(1);
  for (int i = 1; i < 1200; ++i) add_at(i, back);
  std::int64_t last = 0;
  for (const auto& sample : history.samples()) {
    EXPECT_GE(sample.dispatched_us, last) << "what follows lies behind what was";
    last = sample.dispatched_us;
  }
  metrics::compare::sides::Selection side{metrics::compare::sides::By::shadow, history.samples()[1].shadow,
                                          metrics::Role::shadow};
  const auto warm = history.mirrored().warm(side, {}, 600, {});
  EXPECT_LT(warm.from_us, last) << "it was warm after ten minutes";
}

}  // namespace
}  // namespace weir::proxy::control

#include "balancer/answer_window.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

namespace weir::balancer {
namespace {

TEST(AnswerWindow, KnowsAtOnceWhatACountOfAllItsAnswersTells) {
  std::mt19937_64 random(7);
  int odd = 0, not_odd = 0;
  for (int round = 0; round < 200; ++round) {
    AnswerWindow window;
    Moment now{std::chrono::seconds(round)};
    for (int step = 0; step < 100; ++step) {
      now += std::chrono::milliseconds(random() % 4000);
      window.add(random() % 100 < 55, now);
      if (random() % 40 == 0) window.clear();
      const Moment asked = now + std::chrono::seconds(random() % 40);
      const auto counts = window.counts(asked);
      const bool mostly = counts.answers == AnswerWindow::size && 2 * counts.bad > counts.answers;
      ASSERT_EQ(window.mostly_bad(asked), mostly) << round << ' ' << step;
      ++(mostly ? odd : not_odd);
    }
  }
  EXPECT_GT(odd, 100);
  EXPECT_GT(not_odd, 100);
}

}  // namespace
}  // namespace weir::balancer

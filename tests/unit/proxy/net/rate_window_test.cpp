#include "proxy/net/rate_window.hpp"

#include <gtest/gtest.h>

#include <random>

namespace weir::proxy::net {
namespace {

using metrics::Moment;
using metrics::Nanoseconds;
using std::chrono::seconds;

constexpr Nanoseconds a_window = seconds(8), a_step = a_window / static_cast<int>(RateWindow::steps);
constexpr Moment begun{std::chrono::hours(1)};

RateWindow begun_window() {
  RateWindow window;
  window.begin(begun, a_window);
  return window;
}

TEST(RateWindow, JudgesTheLastWindowAlone) {
  auto window = begun_window();
  EXPECT_EQ(window.behind_at(0), Moment::max());
  EXPECT_EQ(window.behind_at(1), begun + a_window);
  window.add(begun, std::size_t{1} << 40);
  EXPECT_EQ(window.behind_at(1), begun + a_window + a_step) << "it is earned for one window, however much it was";
  window.add(begun + seconds(100), 8);
  EXPECT_EQ(window.behind_at(1), begun + seconds(100)) << "whoever was behind is so until a window is right";
  window.begin(begun + seconds(200), a_window);
  EXPECT_EQ(window.behind_at(1), begun + seconds(200) + a_window);
  window.add(begun + seconds(207), 8);
  EXPECT_EQ(window.behind_at(1), begun + seconds(207) + a_window + a_step);
  EXPECT_EQ(window.behind_at(2), begun + seconds(208));
}

TEST(RateWindow, TellsWhatCameLately) {
  auto window = begun_window();
  window.add(begun, 5);
  window.add(begun + a_step, 7);
  EXPECT_EQ(window.recent(begun + a_step), 12u);
  EXPECT_EQ(window.recent(begun + 2 * a_step), 7u);
  EXPECT_EQ(window.recent(begun + 3 * a_step), 0u);
  EXPECT_EQ(window.recent(begun + 1000 * a_step), 0u);
}

/// A peer that has `rate` bytes a second in every window: at least `parts` events in each, with their part each.
TEST(RateWindow, CutsNobodyWhoKeepsTheRate) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&random](std::int64_t least, std::int64_t most) {
      return std::uniform_int_distribution<std::int64_t>(least, most)(random);
    };
    const auto parts = draw(1, 20), rate = draw(1, 100'000);
    const auto part = (rate * 8 + parts - 1) / parts;
    auto window = begun_window();
    for (auto now = begun; now < begun + seconds(100);) {
      now += Nanoseconds(draw(1, a_window.count() / parts - 1));
      ASSERT_GT(window.behind_at(static_cast<std::size_t>(rate)), now) << "seed " << seed;
      window.add(now, static_cast<std::size_t>(part + (draw(0, 9) == 0 ? draw(0, 1 << 20) : 0)));
      ASSERT_GT(window.behind_at(static_cast<std::size_t>(rate)), now) << "seed " << seed;
    }
  }
}

TEST(RateWindow, CutsWhoeverStaysBelowWithinAWindowAndAStepWhateverCameBefore) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&random](std::int64_t least, std::int64_t most) {
      return std::uniform_int_distribution<std::int64_t>(least, most)(random);
    };
    const auto rate = draw(100'000, 1'000'000);
    auto window = begun_window();
    auto now = begun;
    for (const auto until = begun + Nanoseconds(draw(0, 5 * a_window.count())); now < until;) {
      now += Nanoseconds(draw(1, a_window.count() / 2));
      window.add(now, static_cast<std::size_t>(draw(0, 1) * draw(0, std::int64_t{1} << 34)));
    }
    const auto slow_from = now;
    const auto most_share = static_cast<double>(draw(0, 95)) / 100;
    // The window is looked at in ticks alone, as a loop does, however many bytes come between them.
    constexpr auto tick = std::chrono::milliseconds(100);
    const auto longest_gap = draw(0, 1) != 0 ? a_window.count() / 32 : tick.count() * 1'000'000 / 4;
    auto looked = slow_from;
    while (window.behind_at(static_cast<std::size_t>(rate)) > looked && looked < slow_from + 10 * a_window) {
      looked += tick;
      while (now < looked) {
        const Nanoseconds gap(draw(1, longest_gap));
        now += gap;
        window.add(now, static_cast<std::size_t>(most_share * static_cast<double>(rate) * metrics::seconds(gap)));
      }
    }
    EXPECT_LE(looked, std::max(slow_from + a_step, begun) + a_window + 2 * tick + a_window / 32) << "seed " << seed;
  }
}

}  // namespace
}  // namespace weir::proxy::net

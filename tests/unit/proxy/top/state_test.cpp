// The keys of `weir top`: what they choose, and that nothing is changed in weir without a question.
#include "proxy/top/state.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace weir::proxy::top {
namespace {

using What = Action::What;

const Shown on_screen{{"gpu1", "gpu0", "old (leaving)"}, 3, 10, 0};

Action typed(State& state, std::string_view bytes) {
  Action last;
  for (const auto one : presses_of(bytes)) last = press(state, one, on_screen);
  return last;
}

TEST(TopKeys, AreReadFromBytes) {
  const auto named = [](Key key) { return "<" + std::to_string(static_cast<int>(key)) + ">"; };
  const auto keys = [&](std::string_view bytes) {
    std::string text;
    for (const auto& one : presses_of(bytes))
      text += one.key == Key::letter ? std::string(1, one.letter) : named(one.key);
    return text;
  };
  EXPECT_EQ(keys("qp/"), "qp/");
  EXPECT_EQ(keys("\x1b[A\x1bOBx"), named(Key::up) + named(Key::down) + "x");
  EXPECT_EQ(keys("\x1b[5~\x1b[6~\x1b[H\x1b[4~"),
            named(Key::page_up) + named(Key::page_down) + named(Key::home) + named(Key::end));
  EXPECT_EQ(keys("\x1b"), named(Key::escape));
  EXPECT_EQ(keys("\x1b\x1b[A"), named(Key::escape) + named(Key::up));
  EXPECT_EQ(keys("\r\x7f"), named(Key::enter) + named(Key::backspace));
  EXPECT_EQ(keys("\x1b[15~a\x1b[1;5Cb"), "ab");
}

/// However the bytes are cut, the keys are the same; an escape byte at the end of a whole read is the Esc key.
TEST(TopKeys, AreTheSameHoweverTheirBytesAreCut) {
  const std::string_view bytes = "j\x1b[A\x1bOBq\x1b[5~\x1b[15~\x1b\x1b[1;5Cx\x1b[F";
  const auto all = presses_of(bytes);
  std::mt19937 random(3);
  for (int run = 0; run < 500; ++run) {
    std::vector<Press> got;
    std::string typed;
    for (std::size_t at = 0; at < bytes.size();) {
      const auto part = bytes.substr(at, 1 + random() % 5);
      at += part.size();
      typed += part;
      const auto whole = whole_presses(typed, at < bytes.size());
      for (const auto one : presses_of(std::string_view(typed).substr(0, whole))) got.push_back(one);
      typed.erase(0, whole);
    }
    ASSERT_EQ(got, all) << run;
    ASSERT_EQ(typed, "");
  }
  EXPECT_EQ(whole_presses("\x1b", false), 1u) << "the Esc key";
  EXPECT_EQ(whole_presses("\x1b[" + std::string(20, '1'), false), 22u) << "no sequence is so long";
}

TEST(TopKeys, ArrowsChooseRows) {
  State state;
  typed(state, "j");
  EXPECT_EQ(state.chosen, "gpu1");
  typed(state, "\x1b[B");
  EXPECT_EQ(state.chosen, "gpu0");
  typed(state, "jj");
  EXPECT_EQ(state.chosen, "old (leaving)");
  typed(state, "\x1b[H");
  EXPECT_EQ(state.chosen, "gpu1");
  typed(state, "\x1b[F");
  EXPECT_EQ(state.chosen, "old (leaving)");
  typed(state, "\x1b");
  EXPECT_EQ(state.chosen, "");
  typed(state, "k");
  EXPECT_EQ(state.chosen, "old (leaving)");
}

TEST(TopKeys, EnterOpensARowAndEscGoesBack) {
  State state;
  typed(state, "r\r");
  EXPECT_EQ(state.section, Section::replicas);
  typed(state, "j\r");
  EXPECT_EQ(state.section, Section::row);
  typed(state, "\x1b");
  EXPECT_EQ(state.section, Section::replicas);
  EXPECT_EQ(state.chosen, "gpu1");
  typed(state, "\x1b");
  EXPECT_EQ(state.section, Section::all);
}

TEST(TopKeys, SortGoesThroughTheColumnsAndEndsWithTheWorst) {
  State state;
  for (const std::size_t expected : {1U, 2U, 3U, 0U}) {
    typed(state, "s");
    EXPECT_EQ(state.sorted_by, expected);
  }
}

TEST(TopKeys, AFilterTakesAllLetters) {
  State state;
  EXPECT_EQ(typed(state, "/qdu\x7fx").what, What::none);
  EXPECT_EQ(state.filter, "qdx");
  typed(state, "\r");
  EXPECT_FALSE(state.types_filter);
  EXPECT_EQ(state.filter, "qdx");
  typed(state, "\x1b");
  EXPECT_EQ(state.filter, "");
}

TEST(TopKeys, DrainAndUndrainAskFirst) {
  State state;
  EXPECT_EQ(typed(state, "dy").what, What::none);
  EXPECT_FALSE(state.asks);
  EXPECT_EQ(typed(state, "jd").what, What::none);
  EXPECT_EQ(state.asks, Change::drain);
  EXPECT_EQ(typed(state, "n").what, What::none);
  EXPECT_EQ(typed(state, "y").what, What::none);
  auto action = typed(state, "dy");
  EXPECT_EQ(action.what, What::drain);
  EXPECT_EQ(action.replica, "gpu1");
  action = typed(state, "ju");
  action = typed(state, "y");
  EXPECT_EQ(action.what, What::undrain);
  EXPECT_EQ(action.replica, "gpu0");
  EXPECT_EQ(typed(state, "jdy").what, What::none) << "one that leaves";
  EXPECT_EQ(typed(state, "pjdy").what, What::none) << "a pool";
}

TEST(TopKeys, QuitsAndSuspends) {
  State state;
  EXPECT_EQ(typed(state, "q").what, What::quit);
  EXPECT_EQ(typed(state, "\x1a").what, What::suspend);
  EXPECT_EQ(typed(state, "\x0c").what, What::redraw);
}

TEST(TopKeys, NoSequenceChangesWeirWithoutItsQuestion) {
  std::mt19937 random(2);
  const std::string_view letters = "qprKe?/sjkduwyn\r\x7f\x1b";
  for (int round = 0; round < 300; ++round) {
    State state;
    for (int step = 0; step < 60; ++step) {
      const auto asked = state.asks;
      const auto chosen = state.chosen;
      Press one{Key::letter, letters[random() % letters.size()]};
      if (random() % 3 == 0) one = {static_cast<Key>(random() % 10), 'y'};
      const auto action = press(state, one, on_screen);
      const bool agreed = asked && one == Press{Key::letter, 'y'};
      const auto expected = !agreed ? What::none : *asked == Change::drain ? What::drain : What::undrain;
      if (action.what == What::drain || action.what == What::undrain || agreed) {
        ASSERT_EQ(action.what, expected);
        ASSERT_EQ(action.replica, chosen);
        ASSERT_EQ(std::ranges::count(on_screen.rows, chosen), 1);
      }
      ASSERT_LE(state.sorted_by, on_screen.columns);
      if (asked) ASSERT_FALSE(state.asks);
    }
  }
}

}  // namespace
}  // namespace weir::proxy::top

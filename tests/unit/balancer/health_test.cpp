#include "balancer/health.hpp"

#include <algorithm>
#include <array>
#include <random>
#include <string_view>
#include <variant>

#include "requests.hpp"

namespace weir::balancer {
namespace {

using enum ReplicaState;
using std::chrono::milliseconds;

Health known() { return Health(config::Health{}, true, at(0)); }

void show(Health& health, Sign sign, int times, double now, bool may_eject = true) {
  for (int i = 0; i < times; ++i) health.showed(sign, may_eject, at(now));
}

TEST(Health, OneOfTheFirstIsUpAndALaterOneStarts) {
  EXPECT_EQ(known().view().state, up);
  EXPECT_EQ(Health(config::Health{}, false, at(0)).view().state, starting);
}

/// A sign, so many times at a moment, and the state that follows.
struct HealthStep {
  enum class Word { hangs, waits, is_not_pardoned, answers_503 };
  std::variant<Sign, Word> what;
  int times;
  double now;
  ReplicaState state;
};
struct HealthStory {
  const char* what;
  std::vector<HealthStep> steps;
  std::string_view reason{};
  bool refuses = false;
};

TEST(Health, HasTheStateThatItsSignsSay) {
  using enum Sign;
  using enum HealthStep::Word;
  const HealthStory stories[] = {
      {"refuses", {{refused, 1, 1, down}}, "it refuses connections", true},
      {"is back", {{refused, 1, 1, down}, {probe_passed, 1, 2, starting}}, "its probes pass"},
      {"only finishes what it has", {{refused, 1, 1, down}, {answered, 5, 2, down}}, {}, true},
      {"takes connections again", {{refused, 1, 1, down}, {probe_failed, 1, 2, down}}},
      {"three failed probes in a row",
       {{probe_failed, 2, 1, up}, {probe_passed, 1, 2, up}, {probe_failed, 2, 3, up}, {probe_failed, 1, 4, down}},
       "3 probes in a row failed"},
      {"an answer is life", {{probe_failed, 2, 1, up}, {answered, 1, 2, up}, {probe_failed, 2, 3, up}}},
      {"an answer of one that is down", {{probe_failed, 3, 1, down}, {answered, 1, 2, starting}}},
      {"tokens while a probe failed",
       {{probe_failed, 2, 1, up}, {probe_excused, 1, 2, up}, {probe_failed, 2, 3, up}, {probe_failed, 1, 4, down}}},
      {"its health path answers errors though it serves",
       {{answers_503, 2, 1, up}, {answered, 9, 1, up}, {answers_503, 1, 2, down}, {answered, 9, 3, down}},
       "its health path answers 503"},
      {"a passed probe ends that",
       {{answers_503, 3, 1, down},
        {answered, 1, 1, down},
        {probe_passed, 1, 2, starting},
        {answers_503, 2, 3, starting}},
       "its probes pass"},
      {"a passed probe between errors", {{answers_503, 2, 1, up}, {probe_passed, 1, 2, up}, {answers_503, 2, 3, up}}},
      {"late probes between errors say nothing of them",
       {{answers_503, 2, 1, up},
        {probe_excused, 9, 2, up},
        {answers_503, 1, 3, down},
        {probe_excused, 9, 4, down},
        {answered, 9, 4, down}},
       "its health path answers 503"},
      {"errors and probes without an answer are failed probes",
       {{answers_503, 2, 1, up}, {probe_failed, 1, 2, down}},
       "3 probes in a row failed"},
      {"without an answer, and then with errors",
       {{probe_failed, 3, 1, down},
        {answers_503, 2, 2, down},
        {answered, 1, 3, starting},
        {answers_503, 2, 4, starting}}},
      {"errors of a process that was started anew",
       {{answers_503, 2, 1, up}, {refused, 1, 2, down}, {answers_503, 2, 3, down}},
       "it refuses connections"},
      {"errors in a time out for hanging",
       {{hangs, 1, 0, ejected},
        {answers_503, 3, 1, down},
        {probe_passed, 1, 2, ejected},
        {answers_503, 2, 3, ejected}}},
      {"tokens are no passed probe", {{probe_failed, 3, 1, down}, {probe_excused, 9, 5, down}}},
      {"five failures in a row",
       {{failed, 4, 1, up}, {answered, 1, 1, up}, {failed, 4, 1, up}, {failed, 1, 1, ejected}},
       "5 requests in a row failed, so it is out for 10 s"},
      {"no failures", {{client_error, 100, 1, up}, {full, 100, 1, up}}},
      {"two connections in a row that are not taken",
       {{connect_timed_out, 1, 1, up},
        {failed, 1, 1, up},
        {connect_timed_out, 1, 1, up},
        {connect_timed_out, 1, 1, ejected}}},
      {"passed probes end no ejection", {{failed, 5, 0, ejected}, {probe_passed, 5, 1, ejected}}},
      {"time alone ends no hanging",
       {{hangs, 1, 0, ejected}, {waits, 1, 100, ejected}, {probe_passed, 1, 101, starting}},
       "its time out is over, and a probe has passed"},
      {"nor does a probe alone",
       {{hangs, 1, 0, ejected},
        {probe_passed, 1, 1, ejected},
        {waits, 1, 9.9, ejected},
        {waits, 1, 10, starting},
        {hangs, 1, 12, ejected},
        {probe_passed, 1, 13, ejected},
        {waits, 1, 31.9, ejected},
        {waits, 1, 32, starting}}},
      {"a probe that fails after one that passed",
       {{hangs, 1, 0, ejected},
        {probe_passed, 1, 1, ejected},
        {probe_failed, 1, 6, ejected},
        {waits, 1, 20, ejected},
        {probe_passed, 1, 21, starting}}},
      {"tokens of one that hung", {{hangs, 1, 0, ejected}, {probe_excused, 9, 5, ejected}, {waits, 1, 60, ejected}}},
      {"goes down in its time out",
       {{hangs, 1, 0, ejected},
        {probe_failed, 3, 1, down},
        {probe_passed, 1, 4, ejected},
        {waits, 1, 9.9, ejected},
        {waits, 1, 10, starting}}},
      {"refuses in its time out", {{hangs, 1, 0, ejected}, {probe_refused, 3, 1, down}}, {}, true},
      {"was started anew in its time out",
       {{hangs, 1, 0, ejected}, {probe_refused, 3, 1, down}, {probe_passed, 1, 4, ejected}}},
      {"hangs and refuses", {{refused, 1, 1, down}, {hangs, 1, 2, down}, {probe_passed, 1, 3, starting}}},
      {"hangs in its time out for failures",
       {{failed, 5, 1, ejected}, {hangs, 1, 2, ejected}, {waits, 1, 60, ejected}}},
      {"only an ejected one is pardoned",
       {{is_not_pardoned, 1, 1, up}, {refused, 1, 1, down}, {is_not_pardoned, 1, 1, down}},
       {},
       true},
  };
  for (const auto& story : stories) {
    auto health = known();
    for (const auto& step : story.steps) {
      const auto* sign = std::get_if<Sign>(&step.what);
      const auto* word = std::get_if<HealthStep::Word>(&step.what);
      if (sign) {
        show(health, *sign, step.times, step.now);
      } else if (*word == hangs) {
        health.hung("it stands still", at(step.now));
        EXPECT_TRUE(health.take_changes().back().hung) << story.what;
      } else if (*word == answers_503) {
        for (int i = 0; i < step.times; ++i) health.ill(503, at(step.now));
      } else if (*word == is_not_pardoned) {
        EXPECT_FALSE(health.pardon(at(step.now))) << story.what;
      }
      health.advance(at(step.now));
      EXPECT_EQ(health.view().state, step.state) << story.what << " at " << step.now;
    }
    if (!story.reason.empty()) EXPECT_EQ(health.view().reason, story.reason);
    EXPECT_EQ(health.view().refuses, story.refuses) << story.what;
    for (const auto& change : health.take_changes()) EXPECT_FALSE(change.hung) << story.what << ": no new hanging";
  }
}

TEST(Health, OneThatRefusesIsProbedSoonAndThenLessAndLess) {
  auto health = known();
  EXPECT_EQ(health.probe_after(), std::chrono::seconds(5));
  std::vector<double> waits;
  for (int i = 0; i < 7; ++i) {
    show(health, Sign::probe_refused, 1, i);
    show(health, Sign::refused, 9, i);
    waits.push_back(health.probe_after().count());
  }
  EXPECT_EQ(waits, (std::vector<double>{0.2, 0.4, 0.8, 1.6, 3.2, 5, 5}));
  show(health, Sign::probe_passed, 1, 8);
  show(health, Sign::refused, 1, 9);
  EXPECT_EQ(health.probe_after(), milliseconds(200)) << "it begins anew";
}

TEST(Health, SeveralPassedProbesMayBeWanted) {
  config::Health settings;
  settings.down_after = 1;
  settings.up_after = 2;
  Health health(settings, true, at(0));
  show(health, Sign::probe_failed, 1, 1);
  show(health, Sign::probe_passed, 1, 2);
  show(health, Sign::probe_failed, 1, 3);
  show(health, Sign::probe_passed, 1, 4);
  EXPECT_EQ(health.view().state, down);
  show(health, Sign::probe_passed, 1, 5);
  EXPECT_EQ(health.view().state, starting);
}

TEST(Health, NothingSoftTakesOutWhatThePoolCannotSpare) {
  auto health = known();
  show(health, Sign::failed, 50, 1, false);
  show(health, Sign::connect_timed_out, 50, 1, false);
  EXPECT_EQ(health.view().state, up);
  show(health, Sign::refused, 1, 1, false);
  EXPECT_EQ(health.view().state, down) << "that is no matter of opinion";
}

TEST(Health, AnEjectionDoublesAndIsHalvedByHealthyMinutes) {
  auto health = known();
  double now = 0;
  const auto ejection = [&] {
    show(health, Sign::failed, 5, now);
    EXPECT_EQ(health.view().state, ejected);
    double length = 0;
    for (; health.view().state == ejected && length < 1000; ++length) health.advance(at(now + length + 1));
    now += length;
    return length;
  };
  for (const double length : {10, 20, 40, 80, 160, 300, 300}) EXPECT_EQ(ejection(), length);
  now += 125;
  EXPECT_EQ(ejection(), 75) << "two healthy minutes";
  now += 3600;
  EXPECT_EQ(ejection(), 10);
}

/// Returns how many seconds a replica that has died stays out, though it takes connections after a second.
double out_after_crash(Health& health, double now) {
  show(health, Sign::refused, 3, now);
  show(health, Sign::probe_refused, 3, now + 0.5);
  EXPECT_EQ(health.view().state, down);
  for (double seconds = 1; seconds < 1000; ++seconds) {
    health.advance(at(now + seconds));
    show(health, Sign::probe_passed, 1, now + seconds);
    if (!health.out()) return seconds;
  }
  return 1000;
}

TEST(Health, AReplicaThatCrashesAgainAndAgainComesBackAsSlowlyAsAnEjectedOne) {
  auto health = known();
  show(health, Sign::answered, 1, 0);
  double now = 100;
  for (const double length : {1, 10, 20, 40, 80, 160, 300, 300}) {
    EXPECT_EQ(out_after_crash(health, now), length);
    now += length + 59;
  }
  now += 1;
  EXPECT_EQ(out_after_crash(health, now), 1) << "it lived for a minute";
  EXPECT_EQ(out_after_crash(health, now + 2), 150) << "and that minute counts";
}

TEST(Health, ACrashLoopIsItsReasonAndAnOperatorCanEndIt) {
  auto health = known();
  show(health, Sign::probe_passed, 1, 0);
  EXPECT_EQ(out_after_crash(health, 100), 1);
  EXPECT_EQ(out_after_crash(health, 120), 10);
  show(health, Sign::refused, 1, 139.5);
  show(health, Sign::probe_refused, 1, 140);
  EXPECT_EQ(health.view().state, down);
  EXPECT_EQ(health.view().reason, "it crashed 3 times in 40 s, so it is out for 20 s");
  show(health, Sign::probe_passed, 1, 141);
  EXPECT_EQ(health.view().state, ejected);
  EXPECT_EQ(health.view().reason, "it lives again, but it crashed 3 times in 40 s, so it is out for 20 s");
  show(health, Sign::refused, 1, 142);
  EXPECT_EQ(health.view().state, down);
  show(health, Sign::probe_passed, 1, 143);
  EXPECT_EQ(health.view().state, ejected) << "a crash in its time out makes that no longer";
  EXPECT_TRUE(health.pardon(at(144)));
  show(health, Sign::answered, 1, 144);
  EXPECT_EQ(out_after_crash(health, 145), 1);
  EXPECT_EQ(out_after_crash(health, 147), 10);
}

TEST(Health, AReplicaThatHasNotLivedYetHasNotCrashed) {
  for (const bool from_the_start : {false, true}) {
    Health health(config::Health{}, from_the_start, at(0));
    EXPECT_EQ(out_after_crash(health, 1), 1) << "it is loading";
    show(health, Sign::answered, 1, 3);
    EXPECT_EQ(out_after_crash(health, 4), 1);
    EXPECT_EQ(out_after_crash(health, 6), 10);
    health.unresolved("its name has no address", at(20));
    EXPECT_EQ(out_after_crash(health, 21), 1) << "a name that is gone is no crash";
  }
}

/// A process that lives and dies at random, and the rule of its times out in other words.
TEST(Health, ItsTimesOutAreThoseOfTheRuleHoweverAProcessLivesAndDies) {
  constexpr std::array lives{1, 5, 30, 58, 59, 60, 61, 119, 121, 130, 400, 1000};
  constexpr std::array dead{1, 3, 9, 10, 15, 40, 400};
  std::mt19937 random(7);
  const auto one_of = [&](const auto& lengths) { return lengths[random() % lengths.size()]; };
  for (int run = 0; run < 200; ++run) {
    auto health = known();
    bool alive = true, in = true;
    int next_turn = one_of(lives), in_since = 0, row = 0, until = 0, next = 10;
    for (int now = 0; now < 4000; ++now) {
      if (now == next_turn) next_turn += (alive = !alive) ? one_of(lives) : one_of(dead);
      if (alive && !in && now >= until) {
        in = true;
        in_since = now;
      } else if (!alive && in) {
        in = false;
        const int lived = now - in_since;
        for (int minutes = lived / 60; minutes > 0; --minutes) next = std::max(next / 2, 10);
        row = lived < 60 && row > 0 ? row + 1 : 1;
        if (row > 1) until = now + next, next = std::min(2 * next, 300);
      }
      health.advance(at(now));
      const auto sign = !alive ? (random() % 2 == 0 ? Sign::refused : Sign::probe_refused) : Sign::probe_passed;
      show(health, sign, 1, now);
      if (alive && random() % 2 == 0) show(health, Sign::answered, 1, now);
      ASSERT_EQ(health.out(), !in) << "run " << run << " at " << now << ": " << health.view().reason;
      if (!alive) ASSERT_EQ(health.view().state, down);
    }
  }
}

TEST(Health, ItComesBackFromAnEjectionSlowly) {
  auto health = known();
  show(health, Sign::failed, 5, 0);
  health.prompt_finished(1000);
  health.advance(at(9.9));
  EXPECT_EQ(health.view().state, ejected);
  health.advance(at(10));
  EXPECT_EQ(health.view().state, starting);
  EXPECT_EQ(health.view().finished, 0u);
  health.prompt_finished(50);
  EXPECT_EQ(health.view().finished, 50u);
  health.advance(at(69.9));
  EXPECT_EQ(health.view().state, starting);
  health.advance(at(70));
  EXPECT_EQ(health.view().state, up) << "no start takes longer than a minute";
}

TEST(Health, TheReasonOfOneThatIsDownIsTheLatest) {
  auto health = known();
  health.unresolved("its name has no address", at(1));
  show(health, Sign::refused, 1, 2);
  EXPECT_EQ(health.view().reason, "it refuses connections");
  EXPECT_EQ(health.view().since, at(1));
  EXPECT_EQ(health.take_changes().size(), 1u);
}

TEST(Health, TellsEachChangeOnce) {
  auto health = known();
  show(health, Sign::refused, 2, 1);
  show(health, Sign::probe_passed, 1, 2);
  health.started(at(3));
  const auto changes = health.take_changes();
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_EQ(changes[0].from, up);
  EXPECT_EQ(changes[0].to, down);
  EXPECT_EQ(changes[1].to, starting);
  EXPECT_EQ(changes[1].at, at(2));
  EXPECT_EQ(changes[2].to, up);
  EXPECT_TRUE(health.take_changes().empty());
}

TEST(Health, APardonedReplicaStartsAndItsEjectionsAreForgotten) {
  for (const bool hung : {false, true}) {
    auto health = known();
    show(health, Sign::failed, 5, 1);
    health.advance(at(12));
    if (hung)
      health.hung("it gave no sign of life for 9 s", at(13));
    else
      show(health, Sign::failed, 5, 13);
    ASSERT_EQ(health.view().state, ejected);
    EXPECT_TRUE(health.pardon(at(14)));
    EXPECT_EQ(health.view().state, starting);
    EXPECT_EQ(health.view().back_since, at(14));
    EXPECT_FALSE(health.pardon(at(14))) << "once";
    show(health, Sign::failed, 4, 15);
    EXPECT_EQ(health.view().state, starting) << "its failures count from the beginning";
    show(health, Sign::failed, 1, 15);
    EXPECT_EQ(health.view().state, ejected);
    health.advance(at(26));
    EXPECT_EQ(health.view().state, starting) << "its next time out is a first one";
  }
}

}  // namespace
}  // namespace weir::balancer

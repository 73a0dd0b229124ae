// A rollout passes through its steps, pauses and goes back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <string>

#include "balancer/rollout/machine.hpp"
#include "tests/unit/balancer/rollout/machine_fixture.hpp"

namespace weir::balancer::rollout::steps {
namespace {

using ::testing::HasSubstr;

TEST_F(RolloutMachine, BeforeTheStartNothingHappens) {
  expect(State::idle, 0);
  EXPECT_EQ(machine.shadow(), std::nullopt) << "operators may use the shadow by themselves";
  EXPECT_FALSE(tick(Word::worse, 10));
  expect(State::idle, 0);
}

TEST_F(RolloutMachine, PassesThroughAllSteps) {
  begin();
  expect(State::shadow, 0);
  EXPECT_EQ(machine.shadow(), true);
  EXPECT_FALSE(tick(Word::pass, 59)) << "the step has its least time";
  expect_move(tick(Word::pass), Reason::pass, "rollout 'fp8': shadow -> 5%: the gate passed after 1m");
  expect(State::live, 0.05);
  EXPECT_EQ(machine.shadow(), false);
  EXPECT_FALSE(tick(Word::pass, 29));
  expect_move(tick(Word::pass), Reason::pass, "5% -> 50%");
  expect(State::live, 0.5);
  expect_move(tick(Word::pass, 30), Reason::pass, "50% -> 100%");
  expect(State::done, 1);
  EXPECT_FALSE(tick(Word::worse, 100)) << "nothing is beside it any more";
  expect(State::done, 1);
}

TEST_F(RolloutMachine, AWorseGateSendsItBackAtOnceFromAnyStep) {
  for (int steps = 0; steps < 3; ++steps) {
    for (const bool paused : {false, true}) {
      begin();
      for (int i = 0; i < steps; ++i) expect_move(machine.promote(), Reason::promote);
      if (paused) expect_move(machine.pause(), Reason::pause);
      expect_move(tick(Word::worse), Reason::worse, "-> returned: the candidate is worse: ttft: why");
      expect(State::returned, 0);
      EXPECT_EQ(machine.shadow(), false);
    }
  }
}

TEST_F(RolloutMachine, FailuresSendItBack) {
  begin(false);
  EXPECT_FALSE(tick_with({10, 1, 190, 0})) << "one failure says nothing";
  now += 60;
  EXPECT_FALSE(tick_with({10, 1, 190, 2}));
  now += 60;
  expect_move(tick_with({10, 4, 190, 0}), Reason::failures,
              "5% -> returned: 6 of 30 of the candidate's requests failed, 2 of 570 of the others");
  expect(State::returned, 0);
  begin(false);
  EXPECT_FALSE(tick_with({10, 9, 190, 171})) << "both sides fail alike";
}

/// Requests that fail together tell of one crash, and of no rate of failures.
TEST_F(RolloutMachine, FailuresThatBeganTogetherAreSaidToBeACrash) {
  begin(false);
  EXPECT_FALSE(tick_with({500, 1, 9500, 5}));
  now += 60;
  EXPECT_FALSE(tick_with({5, 2, 95, 0}));
  expect_move(tick_with({5, 4, 95, 0}), Reason::failures,
              "5% -> returned: the candidate crashed: within 2s 7 of 510 of the candidate's requests failed");
}

TEST_F(RolloutMachine, MissesSendItBack) {
  begin(false);
  expect_move(tick_with({10, 0, 190, 0}, {10, 8, 190, 1}), Reason::misses,
              "8 of 10 of the candidate's conversations missed the objective 'fast', 1 of 190 of the others");
  expect(State::returned, 0);
}

TEST_F(RolloutMachine, RefusalsAndHangsSendItBack) {
  const auto tick_with_drawn = [&](Drawn refusals, Drawn hangs) {
    now += 1;
    return machine.tick({at(now), Word::unknown, "", {}, {}, false, refusals, hangs});
  };
  begin(false);
  EXPECT_FALSE(tick_with_drawn({1, 0}, {})) << "one says nothing";
  EXPECT_FALSE(tick_with_drawn({2, 57}, {})) << "clients' own errors meet both sides";
  expect_move(tick_with_drawn({12, 3}, {}), Reason::refusals,
              "5% -> returned: 15 conversations of the candidate's had a request refused, 60 of the others'");
  expect(State::returned, 0);
  begin(false);
  EXPECT_FALSE(tick_with_drawn({}, {1, 20}));
  expect_move(tick_with_drawn({}, {8, 0}), Reason::hangs, "waited too long for a token, 20 of the others'");
  begin(false);
  expect_move(machine.pause(), Reason::pause);
  expect_move(tick_with_drawn({}, {4, 0}), Reason::hangs);
}

/// The evidence of a step begins with it.
TEST_F(RolloutMachine, EachStepHasCountsOfItsOwn) {
  begin(false);
  EXPECT_FALSE(tick_with({100, 1, 1900, 0}));
  expect_move(machine.promote(), Reason::promote);
  EXPECT_EQ(machine.standing().failures, Counts());
  EXPECT_FALSE(tick_with({100, 1, 100, 0}));
}

TEST_F(RolloutMachine, ACandidateThatIsOutSendsItBack) {
  begin(false);
  now += 1;
  const Tick out{at(now), Word::unknown, "", {}, {}, true};
  expect_move(machine.tick(out), Reason::out, "none of the candidate's replicas takes requests");
  expect(State::returned, 0);
  begin(true);
  EXPECT_FALSE(machine.tick(out)) << "the shadow's replicas are others to weir";
  for (int i = 0; i < 3; ++i) expect_move(machine.promote(), Reason::promote);
  expect(State::done, 1);
  EXPECT_FALSE(machine.tick(out)) << "requests go to the others meanwhile";
}

/// A pause keeps the share, so whatever sends a step back sends it back in a pause too.
TEST_F(RolloutMachine, APauseOfALiveStepStillGoesBack) {
  for (const auto& [reason, tick] :
       {std::pair{Reason::failures, Tick{{}, Word::unknown, "", {20, 10, 380, 0}, {}, false}},
        std::pair{Reason::misses, Tick{{}, Word::unknown, "", {}, {20, 10, 380, 0}, false}},
        std::pair{Reason::out, Tick{{}, Word::unknown, "", {}, {}, true}}}) {
    begin(false);
    expect_move(machine.pause(), Reason::pause);
    auto at_now = tick;
    at_now.now = at(++now);
    expect_move(machine.tick(at_now), reason);
    expect(State::returned, 0);
  }
}

TEST_F(RolloutMachine, TheTimeOfAPauseDoesNotCount) {
  begin(false);
  EXPECT_FALSE(tick(Word::pass, 10));
  expect_move(machine.pause(), Reason::pause);
  EXPECT_FALSE(tick(Word::pass, 1000));
  EXPECT_EQ(machine.standing().in_step, 10);
  expect_move(machine.start(), Reason::resume);
  EXPECT_FALSE(tick(Word::pass, 19));
  expect_move(tick(Word::pass), Reason::pass);
}

/// With a share of a thousandth, one failure alone has an evidence above the limit.
TEST_F(RolloutMachine, OneFailureIsNeverEnoughAndTwoMayBe) {
  auto small = settings(false);
  small.steps[0].share = 0.001;
  machine = Machine(small);
  expect_move(machine.start(), Reason::start);
  EXPECT_FALSE(tick_with({10, 1, 9990, 0}));
  ASSERT_GT(evidence(machine.standing().failures, 0.001), machine.evidence_limit());
  expect_move(tick_with({0, 1, 0, 0}), Reason::failures);
}

TEST_F(RolloutMachine, WithoutAShadowStepEachStepHasToPass) {
  begin(false);
  expect_move(tick(Word::pass, 30), Reason::pass);
  expect(State::live, 0.5);
  EXPECT_FALSE(tick_with({1000, 0, 1000, 0}));
  EXPECT_FALSE(tick(Word::unknown, 100));
}

TEST_F(RolloutMachine, WhatIsNotUnderWayHasNoShareWhateverWasKept) {
  for (const auto state : {State::idle, State::returned, State::aborted}) {
    machine = Machine(settings());
    Standing kept;
    kept.state = state;
    kept.share = 0.5;
    EXPECT_FALSE(machine.restore(kept));
    expect(state, 0);
  }
}

TEST_F(RolloutMachine, AGateThatIsKnownNowAndThenDoesNotPause) {
  auto patient = settings(false);
  patient.steps[0].least = Seconds(10'000);
  machine = Machine(patient);
  expect_move(machine.start(), Reason::start);
  tick(Word::unknown, 0);
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(tick(Word::unknown, 299));
    EXPECT_FALSE(tick(Word::pass));
  }
  EXPECT_FALSE(tick(Word::unknown, 299));
  expect_move(tick(Word::unknown), Reason::unknown);
}

TEST_F(RolloutMachine, AStepThatStaysUnknownPauses) {
  begin(false);
  expect_move(machine.promote(), Reason::promote);
  EXPECT_FALSE(tick(Word::unknown, 299));
  expect_move(tick(Word::unknown), Reason::unknown, "50% -> paused at 50%: the gate was unknown for 5m: ttft: why");
  expect(State::paused, 0.5);
  EXPECT_FALSE(tick(Word::pass, 1000)) << "only an operator lets it go on";
  expect_move(machine.start(), Reason::resume);
  expect(State::live, 0.5);
  EXPECT_FALSE(tick(Word::unknown, 299)) << "the limit begins anew";
}

/// The shadow step has shown the latencies: of few live requests, it is enough that they are not worse.
TEST_F(RolloutMachine, AfterAPassedShadowStepUnknownIsEnoughForALiveStep) {
  begin();
  expect_move(tick(Word::pass, 60), Reason::pass);
  EXPECT_FALSE(tick_with({29, 0, 500, 0}));
  EXPECT_FALSE(tick(Word::unknown, 100)) << "29 requests are too few";
  expect_move(tick_with({1, 0, 20, 0}), Reason::pass, "nothing is worse than in the shadow step");
  begin();
  expect_move(machine.promote(), Reason::promote);
  EXPECT_FALSE(tick_with({1000, 0, 500, 0}));
  EXPECT_FALSE(tick(Word::unknown, 100)) << "a promoted step has shown nothing";
}

TEST_F(RolloutMachine, CommandsThatDoNotFitAreRefusedWithASentence) {
  struct Row {
    State state;
    bool start, pause, promote, abort;
  };
  for (const auto& row :
       {Row{State::idle, true, false, false, false}, Row{State::shadow, false, true, true, true},
        Row{State::live, false, true, true, true}, Row{State::paused, true, false, true, true},
        Row{State::returned, true, false, false, false}, Row{State::aborted, true, false, false, false},
        Row{State::done, false, false, false, true}}) {
    const auto in_state = [&] {
      begin(true);
      switch (row.state) {
        case State::idle:
          machine = Machine(settings());
          break;
        case State::shadow:
          break;
        case State::live:
          machine.promote();
          break;
        case State::paused:
          machine.pause();
          break;
        case State::returned:
          tick(Word::worse);
          break;
        case State::aborted:
          machine.abort();
          break;
        case State::done:
          for (int i = 0; i < 3; ++i) machine.promote();
      }
      ASSERT_EQ(machine.standing().state, row.state);
    };
    const auto is_taken = [](const Answer& answer) {
      if (const auto* sentence = std::get_if<std::string>(&answer)) {
        EXPECT_THAT(*sentence, HasSubstr("the rollout 'fp8' is "));
      }
      return std::holds_alternative<Move>(answer);
    };
    in_state();
    EXPECT_EQ(is_taken(machine.start()), row.start) << name_of(row.state);
    in_state();
    EXPECT_EQ(is_taken(machine.pause()), row.pause) << name_of(row.state);
    in_state();
    EXPECT_EQ(is_taken(machine.promote()), row.promote) << name_of(row.state);
    in_state();
    EXPECT_EQ(is_taken(machine.abort()), row.abort) << name_of(row.state);
  }
}

TEST_F(RolloutMachine, NoStepEndsBeforeItsGateWasAsked) {
  begin();
  expect_move(tick(Word::pass, 60), Reason::pass);
  EXPECT_FALSE(tick_with({40, 0, 500, 0}));
  now += 100;
  EXPECT_FALSE(machine.tick({at(now), std::nullopt, "", {}, {}, false}));
  expect_move(tick(Word::unknown), Reason::pass);
}

TEST_F(RolloutMachine, OfPromotionsFromOneStepOneIsHeard) {
  begin();
  EXPECT_TRUE(std::holds_alternative<std::string>(machine.promote("5%")));
  expect_move(machine.promote("shadow"), Reason::promote);
  EXPECT_THAT(std::get<std::string>(machine.promote("shadow")), HasSubstr("stands at 5%, and not at shadow"));
  expect(State::live, 0.05);
  expect_move(machine.pause(), Reason::pause);
  expect_move(machine.promote("5%", "100%"), Reason::promote);
  expect(State::done, 1);
}

TEST_F(RolloutMachine, TheEvidenceOfAllStepsTogetherIsBounded) {
  EXPECT_EQ(machine.evidence_limit(), 2 * 4 / 0.05) << "two live steps, four kinds of events";
}

/// Anything in any order. The share and the shadow follow from the state, and only a pass, a promotion or a start gives
/// the candidate more.
TEST(RolloutMachineProperty, NothingGivesTheCandidateMoreUnasked) {
  std::mt19937_64 random(3);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  std::array<int, reason_names.size()> seen{};
  for (int run = 0; run < 300; ++run) {
    auto drawn_settings = settings(below(2) == 0);
    drawn_settings.answers = static_cast<config::OtherAnswers>(below(3));
    Machine machine(drawn_settings);
    double now = 0;
    for (int i = 0; i < 400; ++i) {
      const double before = machine.share();
      const bool passed_least =
          before <= 0 || machine.standing().state != State::live ||
          machine.standing().in_step + 100 >= machine.settings().steps[machine.standing().step].least.count();
      std::optional<Move> move;
      Word gate = Word::unknown;
      const auto take = [&](Answer answer) {
        if (auto* one = std::get_if<Move>(&answer)) move = std::move(*one);
      };
      switch (below(24)) {
        case 0:
        case 1:
          take(machine.start());
          break;
        case 2:
          take(machine.pause());
          break;
        case 3:
          take(machine.promote());
          break;
        case 4:
          if (below(4) == 0) take(machine.abort());
          break;
        case 5: {
          auto other = settings(below(3) > 0);
          if (below(3) == 0) other.steps.erase(other.steps.end() - 2);
          if (below(20) == 0) other.candidate = "newer";
          move = machine.adopt(other);
          break;
        }
        case 6: {
          Machine next(machine.settings());
          move = next.restore(machine.standing());
          EXPECT_FALSE(move) << "its own standing fits";
          machine = next;
          break;
        }
        default: {
          now += static_cast<double>(below(100));
          gate = static_cast<Word>(below(30) == 0 ? 1 : 2 * below(2));
          const auto counts = [&] {
            const auto n = below(20);
            return Counts{n, below(40) == 0 ? n : 0, 100, below(3)};
          };
          const auto failures = counts(), misses = counts();
          const auto drawn = [&] { return Drawn{below(80) == 0 ? below(20) : 0, below(3)}; };
          const auto refusals = drawn(), hangs = drawn();
          const std::string answers = below(60) == 0 ? "answers: they differ" : "";
          const bool passes = gate == Word::pass || (gate == Word::unknown && !answers.empty() && below(2) == 0);
          move = machine.tick(
              {at(now), gate, answers, failures, misses, below(80) == 0, refusals, hangs, answers, passes});
          if (move && move->reason == Reason::answers) {
            ASSERT_TRUE(!answers.empty() && machine.settings().answers == config::OtherAnswers::same);
          }
        }
      }
      const auto& standing = machine.standing();
      if (machine.share() > before) {
        ASSERT_TRUE(move);
        ASSERT_TRUE(move->reason == Reason::pass || move->reason == Reason::promote || move->reason == Reason::start);
        if (move->reason == Reason::pass) {
          ASSERT_TRUE(gate != Word::worse && passed_least);
        }
      }
      if (move) {
        ++seen[static_cast<std::size_t>(move->reason)];
        ASSERT_FALSE(standing.why.empty());
        ASSERT_THAT(move->line, HasSubstr(standing.why));
      }
      const bool under_way = standing.state == State::shadow || standing.state == State::live ||
                             standing.state == State::paused || standing.state == State::done;
      if (!under_way) {
        ASSERT_EQ(machine.share(), 0);
      } else {
        const auto& step = machine.settings().steps.at(standing.step);
        ASSERT_EQ(machine.share(), step.share);
        ASSERT_EQ(standing.state == State::done, step.share == 1);
        if (standing.state == State::shadow) {
          ASSERT_TRUE(step.shadow);
        }
        if (standing.state == State::live) {
          ASSERT_FALSE(step.shadow);
        }
      }
      if (gate == Word::worse) {
        ASSERT_TRUE(!under_way || standing.state == State::done) << "worse leaves nothing under way";
      }
      const bool mirrors = machine.shadow().value_or(false);
      ASSERT_TRUE(!mirrors || (machine.share() == 0 && under_way));
    }
  }
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_GT(seen[i], 0) << reason_names[i];
}

}  // namespace
}  // namespace weir::balancer::rollout::steps

namespace weir::balancer::rollout {
namespace {

/// So many requests that the intended share does not count.
constexpr std::uint64_t many = 1'000'000'000;

Counts of(std::uint64_t k, std::uint64_t c, double share) {
  const auto candidate = static_cast<std::uint64_t>(share * double{many});
  return {candidate, k, many - candidate, c};
}

TEST(Evidence, IsTheMeanLikelihoodRatioOfSixteenGreaterShares) {
  for (const double p : {0.01, 0.05, 0.25, 0.5, 0.9})
    for (const std::uint64_t k : {0u, 1u, 5u, 20u})
      for (const std::uint64_t c : {0u, 7u, 60u}) {
        double expected = 0;
        for (int i = 0; i < 16; ++i) {
          const double q = p + (1 - p) * std::pow((i + 0.5) / 16, 2);
          expected += std::pow(q / p, k) * std::pow((1 - q) / (1 - p), c) / 16;
        }
        EXPECT_NEAR(evidence(Drawn{k, c}, p) / expected, 1, 1e-9) << p << ' ' << k << ' ' << c;
        EXPECT_NEAR(evidence(of(k, c, p), p) / expected, 1, 1e-4) << p << ' ' << k << ' ' << c;
      }
}

TEST(Evidence, NothingShowsNothing) {
  EXPECT_DOUBLE_EQ(evidence(Counts{}, 0.5), 1);
  EXPECT_DOUBLE_EQ(evidence({100, 5, 0, 0}, 1), 1) << "nothing is beside the candidate";
  EXPECT_DOUBLE_EQ(evidence({0, 0, 100, 5}, 0), 1);
  EXPECT_DOUBLE_EQ(evidence(Drawn{5, 0}, 1), 1);
  EXPECT_DOUBLE_EQ(evidence(Drawn{5, 0}, 0), 1);
}

/// Few requests say little of the candidate's share, so that its first one that fails is no proof.
TEST(Evidence, TheIntendedShareCountsWhileRequestsAreFew) {
  EXPECT_LT(evidence({1, 1, 0, 0}, 0.25), 4);
  EXPECT_LT(evidence({1, 1, 40, 0}, 0.25), 6) << "twenty by what was counted alone";
  EXPECT_GT(evidence({10, 10, 190, 0}, 0.05), 1e6);
}

TEST(Evidence, GrowsWithTheCandidatesEventsAndFallsWithTheOthers) {
  for (std::uint64_t k = 0; k < 30; ++k) {
    EXPECT_LT(evidence(of(k, 5, 0.25), 0.25), evidence(of(k + 1, 5, 0.25), 0.25));
    EXPECT_GT(evidence(of(10, k, 0.25), 0.25), evidence(of(10, k + 1, 0.25), 0.25));
  }
}

TEST(Counts, HaveNoMoreEventsThanRequests) {
  Counts counts{1, 0, 2, 2};
  counts += {0, 3, 0, 1};
  EXPECT_EQ(counts, (Counts{3, 3, 3, 3}));
}

TEST(Evidence, StaysFiniteForManyEvents) {
  EXPECT_TRUE(std::isfinite(std::log(evidence({5000, 2000, 5000, 2100}, 0.5))));
  EXPECT_LT(evidence({5000, 2000, 5000, 2100}, 0.5), 1);
  EXPECT_GT(evidence({5000, 2300, 5000, 2000}, 0.5), 1000);
}

/// Ville's inequality, looked at after each event: of equal sides at most one in 20 ever reaches 20.
TEST(Evidence, OfEqualSidesIsRarelyGreat) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<> uniform;
  for (const double share : {0.05, 0.5}) {
    int reached = 0;
    constexpr int runs = 400;
    for (int run = 0; run < runs; ++run) {
      Counts counts;
      bool great = false;
      for (int request = 0; request < 3000 && !great; ++request) {
        const bool of_candidate = uniform(random) < share, fails = uniform(random) < 0.02;
        ++(of_candidate ? counts.candidate : counts.stable);
        if (fails) ++(of_candidate ? counts.candidate_bad : counts.stable_bad);
        great = fails && of_candidate && evidence(counts, share) >= 20;
      }
      reached += great;
    }
    EXPECT_LE(reached, runs / 20 + 8) << share;
  }
}

TEST(Evidence, FindsACandidateThatFailsOften) {
  std::mt19937_64 random(6);
  std::uniform_real_distribution<> uniform;
  for (int run = 0; run < 100; ++run) {
    Counts counts;
    int request = 0;
    for (; evidence(counts, 0.25) < 160; ++request) {
      ASSERT_LT(request, 2000) << "10 % fail, and 1 % beside it";
      const bool of_candidate = uniform(random) < 0.25, fails = uniform(random) < (of_candidate ? 0.1 : 0.01);
      ++(of_candidate ? counts.candidate : counts.stable);
      if (fails) ++(of_candidate ? counts.candidate_bad : counts.stable_bad);
    }
  }
}

}  // namespace
}  // namespace weir::balancer::rollout

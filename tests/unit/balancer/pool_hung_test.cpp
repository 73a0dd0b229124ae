// A pool suspects the replica that is silent for longer than its books explain, and calls it hung once a witness
// confirms that, or once nothing explains its silence any more.
#include <gmock/gmock.h>

#include <limits>
#include <set>

#include "balancer/pool.hpp"
#include "requests.hpp"

namespace weir::balancer {
namespace {

using enum ReplicaState;

class PoolHung : public testing::Test {
 protected:
  void begin(std::size_t replicas, bool eject = true) {
    std::vector<ReplicaSpec> specs;
    for (std::size_t i = 0; i < replicas; ++i) {
      specs.push_back(replica(std::string(1, static_cast<char>('a' + i))));
      specs.back().health.eject = eject;
    }
    pool = pool_of(specs, config::Policy::round_robin);
    for (ReplicaIndex i = 0; i < replicas; ++i) keys.push_back(pool->figures().key(i));
  }
  Lease send(ReplicaIndex to, Tokens prompt, double now, bool stream = true,
             std::optional<std::uint64_t> max_tokens = 100) {
    std::vector<Serial> others;
    for (ReplicaIndex i = 0; i < keys.size(); ++i)
      if (i != to) others.push_back(keys[i].serial);
    RequestFacts facts = prompt_of(prompt);
    facts.stream = stream;
    facts.max_tokens = max_tokens;
    Lease lease = admitted(pool->offer(facts, at(now), others));
    EXPECT_EQ(lease.replica(), to);
    return lease;
  }
  /// Twenty prompts teach that the replica does 1000 tokens a second. Returns the time afterwards.
  double teach(ReplicaIndex replica, double now) {
    for (int i = 0; i < 20; ++i) {
      Lease lease = send(replica, 1000, now);
      lease.first_token(at(now += 1));
      lease.end(LeaseEnd(EndCause::answered), at(now));
    }
    return now;
  }
  void look(double now) {
    for (auto& change : pool->health().take_changes(at(now))) changes.push_back(std::move(change));
    for (const auto& suspect : pool->health().take_suspects()) {
      suspected.push_back(now);
      if (witness) pool->health().testify(suspect.key, *witness, suspect.since, at(now));
    }
  }
  /// Looks every 50 ms until the replica is out; returns when that was, or 0.
  double out_at(std::size_t index, double from, double to) {
    for (int i = 1; from + 0.05 * i <= to; ++i) {
      const double now = from + 0.05 * i;
      look(now);
      if (pool->health().of(keys[index], at(now)).state == ejected) return now;
    }
    return 0;
  }

  /// Looks as often, and returns the name of the replica that is told to hang; "" if none is.
  std::string hung_at(double from, double to) {
    std::string name;
    for (double now = from; now <= to; now += 0.05) {
      changes.clear();
      look(now);
      for (const auto& one : changes)
        if (one.change.hung) name += one.replica;
    }
    return name;
  }

  std::shared_ptr<Pool> pool;
  std::vector<ReplicaKey> keys;
  std::vector<ReplicaChange> changes;
  std::vector<double> suspected;
  std::optional<Testimony> witness = Testimony::mute;  ///< Each suspicion brings this at once.
};

TEST_F(PoolHung, OneThatGivesNoFirstTokenIsOutAfterFiveSecondsIfItsProbeGetsNoAnswer) {
  begin(2);
  const double now = teach(0, 0);
  Lease lease = send(0, 100, now);
  EXPECT_NEAR(out_at(0, now, now + 60), now + 5, 0.06);
  ASSERT_FALSE(changes.empty());
  EXPECT_EQ(changes.back().replica, "a");
  EXPECT_TRUE(changes.back().change.hung);
  EXPECT_EQ(changes.back().change.to, ejected);
  EXPECT_EQ(changes.back().change.reason,
            "it gave no sign of life for 5.0 s, and its probe did not pass, so it is out for 10 s and until a probe "
            "passes");
}

TEST_F(PoolHung, TheGapBetweenTokensCountsToo) {
  begin(2);
  double now = teach(0, 0);
  Lease lease = send(0, 100, now);
  lease.first_token(at(now));
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(out_at(0, now, now + 4.9), 0);
    lease.tokens(1);
    now += 4.9;
  }
  EXPECT_EQ(out_at(0, now, now + 5), 0) << "the token is seen with the first look after it";
  EXPECT_NEAR(out_at(0, now + 5, now + 60), now + 5, 0.11);
}

TEST_F(PoolHung, WhatCannotBeReadIsLifeToo) {
  begin(2);
  double now = teach(0, 0);
  Lease stuck = send(0, 100, now), unread = send(0, 100, now);
  for (int i = 0; i < 20; ++i, now += 3) {
    EXPECT_EQ(out_at(0, now, now + 3), 0);
    unread.lives();
  }
  EXPECT_GT(out_at(0, now, now + 10), 0);
}

TEST_F(PoolHung, OneThatIsNoLongerNamedIsFoundIfAnotherIsIn) {
  for (const bool draining : {false, true}) {
    begin(2);
    const double now = teach(0, 0);
    Lease lease = send(0, 100, now);
    auto a = replica("a"), b = replica("b");
    a.draining = true;
    a.subject = b.subject = std::make_shared<int>(1);
    const std::vector<ReplicaSpec> specs = draining ? std::vector{a, b} : std::vector{b};
    pool->set_replicas(specs, at(now));
    pool->health().report(keys[1], Sign::refused, at(now));
    EXPECT_TRUE(hung_at(now, now + 20).empty()) << "nobody could take its request";
    pool->health().report(keys[1], Sign::probe_passed, at(now + 20));
    EXPECT_EQ(hung_at(now + 20, now + 30), "a");
    keys.clear();
  }
}

TEST_F(PoolHung, OfOneThatIsNoLongerNamedNothingElseIsTold) {
  begin(2);
  Lease lease = send(0, 100, 0);
  const std::vector<ReplicaSpec> specs{replica("b")};
  pool->set_replicas(specs, at(1));
  pool->health().report(keys[0], Sign::refused, at(2));
  EXPECT_TRUE(pool->health().take_changes(at(2)).empty());
}

TEST_F(PoolHung, AnyTokenIsLifeForAll) {
  begin(2);
  double now = teach(0, 0);
  Lease stuck = send(0, 100, now), lively = send(0, 100, now);
  lively.first_token(at(now));
  for (int i = 0; i < 20; ++i, now += 3) {
    EXPECT_EQ(out_at(0, now, now + 3), 0);
    lively.tokens(1);
  }
}

TEST_F(PoolHung, ALongPromptHasFourTimesTheTimeThatItsBooksSay) {
  begin(2);
  const double now = teach(0, 0);
  Lease silent = send(0, 2000, now, false), lease = send(0, 3000, now);
  silent.leave_unread(true);  // By itself it would be a reason earlier.
  EXPECT_NEAR(out_at(0, now, now + 60), now + 4 * 5, 0.3) << "2000 tokens lie before its 3000";
}

TEST_F(PoolHung, WhatComesBehindALongPromptDoesNotHaveToWaitLonger) {
  begin(2);
  const double now = teach(0, 0);
  Lease first = send(0, 100, now), second = send(0, 50'000, now);
  EXPECT_NEAR(out_at(0, now, now + 60), now + 5, 0.06);
}

// An engine whose rate nobody knows may be a slow one, or compile before its first answer. At 100 tokens a second a
// prompt of 100,000 takes 1000 s: limits.first_token ends it before that.
TEST_F(PoolHung, WithoutAKnownRateAPromptHasTheTimeThatASlowEngineNeeds) {
  begin(2);
  Lease huge = send(0, 100'000, 0);
  EXPECT_EQ(out_at(0, 0, 600), 0);
  Lease usual = send(1, 1000, 600);
  EXPECT_NEAR(out_at(1, 600, 700), 640, 0.1);
}

TEST_F(PoolHung, TheOnlyReplicaKeepsItsRequests) {
  begin(1);
  const double now = teach(0, 0);
  Lease lease = send(0, 100, now);
  EXPECT_EQ(out_at(0, now, now + 100), 0);
}

TEST_F(PoolHung, TheLastHalfKeepsItsRequestsUntilAnotherIsBack) {
  begin(2);
  const double now = teach(0, 0);
  Lease lease = send(0, 100, now);
  pool->health().report(keys[1], Sign::refused, at(now));
  EXPECT_EQ(out_at(0, now, now + 30), 0) << "the other one is down";
  pool->health().report(keys[1], Sign::probe_passed, at(now + 30));
  EXPECT_NEAR(out_at(0, now + 30, now + 31), now + 30, 0.06);
}

TEST_F(PoolHung, OneThatAnswersItsProbesIsOutOnlyAfterAMinute) {
  begin(2);
  const double now = teach(0, 0);
  witness = Testimony::answered;
  Lease lease = send(0, 100, now);
  EXPECT_NEAR(out_at(0, now, now + 100), now + 60, 0.06);
  ASSERT_EQ(suspected.size(), 1u);
  EXPECT_NEAR(suspected[0], now + 5, 0.06);
  EXPECT_EQ(changes.back().change.reason,
            "none of its streams got a token for 60.0 s, where one was due after 0.1 s, so it is out for 10 s and "
            "until a probe passes");
}

TEST_F(PoolHung, OneThatNobodyCanAskIsOutOnlyAfterAMinute) {
  begin(2);
  const double now = teach(0, 0);
  witness.reset();
  Lease lease = send(0, 100, now);
  EXPECT_NEAR(out_at(0, now, now + 100), now + 60, 0.06);
}

TEST_F(PoolHung, OneThatAnswersItsProbesHasEightTimesTheTimeThatAllItsPromptsTake) {
  for (const bool stream : {true, false}) {
    begin(2);
    const double now = teach(0, 0);
    witness = Testimony::answered;
    Lease begun = send(0, 100, now);
    begun.first_token(at(now));
    Lease huge = send(0, 60'000, now, stream);
    EXPECT_NEAR(out_at(0, now, now + 600), now + 480, 5) << "it prefills for a minute, and decodes nothing meanwhile";
    keys.clear();
  }
}

TEST_F(PoolHung, OneWhoseCountersMoveIsSuspectedAgainAndNeverOut) {
  begin(2);
  const double now = teach(0, 0);
  witness = Testimony::works;
  Lease lease = send(0, 100, now);
  EXPECT_EQ(out_at(0, now, now + 300), 0);
  EXPECT_NEAR(static_cast<double>(suspected.size()), 59, 2);
}

TEST_F(PoolHung, OneThatSaysItselfThatItIsIllIsOut) {
  begin(2);
  const double now = teach(0, 0);
  witness = Testimony::ill;
  Lease lease = send(0, 100, now);
  EXPECT_NEAR(out_at(0, now, now + 60), now + 5, 0.11);
}

TEST_F(PoolHung, AProbeWithoutAnAnswerSaysNothingOfOneThatGaveItsPageMeanwhile) {
  begin(2);
  const double now = teach(0, 0);
  witness.reset();
  Lease lease = send(0, 100, now);
  out_at(0, now, now + 6);
  pool->health().testify(keys[0], Testimony::told, at(now + 6), at(now + 7));
  pool->health().testify(keys[0], Testimony::mute, at(now + 5), at(now + 10));
  EXPECT_EQ(out_at(0, now + 10, now + 20), 0);
  pool->health().testify(keys[0], Testimony::mute, at(now + 15), at(now + 20));
  EXPECT_GT(out_at(0, now + 20, now + 20.2), 0) << "then it stood still";
}

TEST_F(PoolHung, WhatAWitnessSaysOfOneThatNobodySuspectsIsNothing) {
  begin(2);
  const double now = teach(0, 0);
  pool->health().testify(keys[0], Testimony::mute, at(now), at(now));
  Lease lease = send(0, 100, now);
  EXPECT_EQ(out_at(0, now, now + 4.9), 0);
  pool->health().testify(keys[0], Testimony::ill, at(now), at(now + 4.9));
  witness = Testimony::answered;
  EXPECT_EQ(out_at(0, now + 4.9, now + 50), 0);
}

TEST_F(PoolHung, AStreamThatIsLeftUnreadNeitherMakesASilenceNorHidesOne) {
  begin(2);
  const double now = teach(0, 0);
  Lease unread = send(0, 100, now);
  unread.first_token(at(now));
  unread.leave_unread(true);
  EXPECT_EQ(out_at(0, now, now + 100), 0);
  Lease waits = send(0, 100, now + 100);
  EXPECT_NEAR(out_at(0, now + 100, now + 200), now + 105, 0.06);
}

TEST_F(PoolHung, ARequestThatIsNotStreamedMakesASuspicionOnceItsBooksExplainItNoMore) {
  begin(2);
  const double now = teach(0, 0);
  witness = Testimony::answered;
  Lease lease = send(0, 1000, now, false);  // With 100 tokens to come.
  EXPECT_EQ(out_at(0, now, now + 50), 0);
  ASSERT_EQ(suspected.size(), 1u);
  EXPECT_NEAR(suspected[0], now + 6, 0.06);
}

// An engine that tells no counters and whose door is open: nothing but time tells that it does nothing.
TEST_F(PoolHung, ARequestThatIsNotStreamedLeavesASilentReplicaAfterManyTimesItsLongestOutput) {
  // 1000 tokens of prompt take 1 s, and 100 of output 5 s.
  const struct {
    std::optional<std::uint64_t> max_tokens;
    std::optional<Tokens> context;
    double after;
  } rows[]{{100, {}, 300},
           {1000, {}, 8 * (1 + 50)},
           {1000, 100, 300},
           {{}, 2000, 8 * (1 + 100)},
           {std::numeric_limits<Tokens>::max(), 2000, 8 * (1 + 100)},
           {{}, {}, 0},
           {std::numeric_limits<Tokens>::max(), {}, 0}};
  for (const auto& row : rows) {
    begin(2);
    const double now = teach(0, 0);
    for (const auto& key : keys) pool->health().engine_told(key, {{}, row.context});
    witness = Testimony::answered;
    Lease lease = send(0, 1000, now, false, row.max_tokens);
    EXPECT_NEAR(out_at(0, now, now + 2000), row.after > 0 ? now + row.after : 0, 0.11);
    if (row.after > 0) {
      EXPECT_TRUE(changes.back().change.hung);
      EXPECT_THAT(changes.back().change.reason, testing::HasSubstr("where an answer was due after"));
    }
    keys.clear();
  }
}

TEST_F(PoolHung, AnAnswerThatMayBeLongExcusesWhatCameBehindItAndNotWhatCameBefore) {
  for (const bool before : {true, false}) {
    begin(2);
    const double now = teach(0, 0);
    witness = Testimony::answered;
    Lease first = send(0, 100, now, false, before ? 16'000 : 100);
    out_at(0, now, now + 1);
    Lease second = send(0, 100, now + 1, false, before ? 100 : 16'000);
    EXPECT_NEAR(out_at(0, now + 1, now + 1000), before ? 0 : now + 300, 0.11);
    keys.clear();
  }
}

// An engine that works on one request at a time shows nothing while that has an answer that is not streamed.
TEST_F(PoolHung, AStreamThatWaitsForItsFirstTokenMayWaitForAnAnswerThatIsNotStreamed) {
  for (const bool begun : {false, true}) {
    begin(2);
    const double now = teach(0, 0);
    witness = Testimony::answered;
    Lease whole = send(0, 100, now, false, 16'000), stream = send(0, 100, now);
    if (begun) stream.first_token(at(now));
    EXPECT_NEAR(out_at(0, now, now + 1700), begun ? now + 60 : 0, 0.11);
    keys.clear();
  }
}

TEST_F(PoolHung, OfASlowEngineALongAnswerThatIsNotStreamedIsNeverTaken) {
  for (const bool limited : {true, false}) {
    for (const bool stream_waits : {true, false}) {
      begin(2);
      double now = 0;
      for (int i = 0; i < 20; ++i) {  // They teach that it makes ten tokens a second.
        Lease lease = send(0, 1000, now);
        lease.first_token(at(now += 1));
        LeaseEnd end(EndCause::answered);
        end.output_tokens = 101;
        lease.end(end, at(now += 10));
      }
      witness = Testimony::answered;
      std::optional<std::uint64_t> max_tokens;
      if (limited) max_tokens = 16'000;
      Lease lease = send(0, 1000, now, false, max_tokens);
      std::optional<Lease> waits;
      if (stream_waits) waits = send(0, 100, now + 1);
      EXPECT_EQ(out_at(0, now, now + 1601), 0);
      keys.clear();
    }
  }
}

// A tool parser that holds an answer back gives all its tokens at once.
TEST_F(PoolHung, StreamsWhoseTokensCameAtOnceTakeNoTimeFromALongAnswer) {
  begin(2);
  double now = 0;
  for (int i = 0; i < 20; ++i) {
    Lease lease = send(0, 1000, now);
    lease.first_token(at(now += 1));
    LeaseEnd end(EndCause::answered);
    end.output_tokens = 201;
    lease.end(end, at(now += 0.004));
  }
  witness = Testimony::answered;
  Lease lease = send(0, 1000, now, false, 16'000);
  EXPECT_EQ(out_at(0, now, now + 1601), 0);
}

TEST_F(PoolHung, AnAnswerThatTakesALittleLongerThanExpectedMakesNobodyPreferOthers) {
  begin(2);
  const double now = teach(0, 0);
  witness = Testimony::answered;
  Lease lease = send(0, 1000, now, false, 100);
  out_at(0, now, now + 10);
  std::set<ReplicaIndex> seen;
  for (int i = 0; i < 4; ++i) seen.insert(admitted(pool->offer(prompt_of(10), at(now + 10))).replica());
  EXPECT_TRUE(seen.contains(0));
  EXPECT_EQ(suspected.size(), 1u) << "its witnesses were asked all the same";
}

// An engine whose loop blocks for seconds answers late.
TEST_F(PoolHung, AProbeThatBeganBeforeTheSuspicionStoodConfirmsItAfterTenSeconds) {
  begin(2);
  witness.reset();
  Lease lease = send(0, 200, 0);  // It is due after 2 s, and the suspicion stands after 8.
  look(5);
  pool->health().testify(keys[0], Testimony::mute, at(5), at(7.9));
  EXPECT_NEAR(out_at(0, 7.9, 20), 10, 0.11);
}

TEST_F(PoolHung, WhereNeitherItsDoorNorItsPageAnswersItsBooksHaveToExplainItOnce) {
  const struct {
    Tokens prompt;
    double both, one;
  } rows[]{{100, 5, 5}, {1000, 10, 40}, {3000, 30, 120}};
  for (const auto& row : rows) {
    for (const bool both : {true, false}) {
      begin(2);
      witness = Testimony::mute;
      Lease lease = send(0, row.prompt, 0);
      out_at(0, 0, 4.95);
      EXPECT_TRUE(suspected.empty()) << "nobody is asked before";
      look(5);
      if (both) pool->health().testify(keys[0], Testimony::untold, at(5), at(5));
      EXPECT_NEAR(out_at(0, 5, 200), both ? row.both : row.one, 0.2) << row.prompt;
      keys.clear();
      suspected.clear();
    }
  }
}

// Both were asked as usual, as the silence began: an engine whose loop blocks for seconds is not out for that.
TEST_F(PoolHung, ADoorAndAPageThatAreMuteFromTheBeginningNeedTenSeconds) {
  begin(2);
  witness.reset();
  Lease lease = send(0, 100, 0);
  look(5);
  for (const auto what : {Testimony::mute, Testimony::untold}) pool->health().testify(keys[0], what, at(0.1), at(5.1));
  EXPECT_NEAR(out_at(0, 5.1, 30), 10, 0.11);
}

TEST_F(PoolHung, APageThatComesLaterTakesBackThatNoneCame) {
  begin(2);
  witness = Testimony::mute;
  Lease lease = send(0, 1000, 0);
  look(5);
  pool->health().testify(keys[0], Testimony::untold, at(5), at(5));
  pool->health().testify(keys[0], Testimony::told, at(6), at(6));
  EXPECT_EQ(out_at(0, 6, 39), 0);
}

TEST_F(PoolHung, APageSaysNothingOfHowWellItsEngineIs) {
  for (const auto said : {Testimony::told, Testimony::answered}) {
    begin(2);
    const double now = teach(0, 0);
    witness = Testimony::ill;
    pool->health().report(keys[1], Sign::refused, at(now));
    Lease lease = send(0, 100, now);
    out_at(0, now, now + 6);
    pool->health().testify(keys[0], said, at(now + 6), at(now + 6));
    pool->health().report(keys[1], Sign::probe_passed, at(now + 7));
    EXPECT_EQ(out_at(0, now + 7, now + 20) > 0, said == Testimony::told) << "its door answers well";
    keys.clear();
  }
}

TEST_F(PoolHung, WhileASuspicionStandsOthersArePreferred) {
  begin(3);
  const double now = teach(0, 0);
  witness = Testimony::answered;
  const auto sends = [&](double when) { return admitted(pool->offer(prompt_of(10), at(when))).replica(); };
  Lease lease = send(0, 100, now);
  out_at(0, now, now + 6);
  for (int i = 0; i < 9; ++i) EXPECT_NE(sends(now + 6), 0u);
  std::vector<ReplicaSpec> specs{replica("a"), replica("b"), replica("c")};
  specs[1].draining = specs[2].draining = true;
  pool->set_replicas(specs, at(now + 6));
  EXPECT_EQ(sends(now + 6), 0u) << "nothing is refused where no other is there";
  specs[1].draining = specs[2].draining = false;
  pool->set_replicas(specs, at(now + 6));
  lease.first_token(at(now + 7));
  look(now + 7);
  std::set<ReplicaIndex> seen;
  for (int i = 0; i < 3; ++i) seen.insert(sends(now + 7));
  EXPECT_TRUE(seen.contains(0)) << "it is as good as any";
}

// Its books explain it, and yet the witnesses are asked, who may know better.
TEST_F(PoolHung, WhatItsBooksExplainMakesNobodyPreferOthers) {
  begin(2);
  witness = Testimony::answered;
  Lease lease = send(0, 3000, 0);
  out_at(0, 0, 100);
  EXPECT_THAT(suspected, testing::ElementsAre(testing::DoubleNear(5, 0.06))) << "and again after 120 s";
  std::set<ReplicaIndex> seen;
  for (int i = 0; i < 2; ++i) seen.insert(admitted(pool->offer(prompt_of(10), at(100))).replica());
  EXPECT_EQ(seen.size(), 2u);
  out_at(0, 100, 121);
  EXPECT_EQ(suspected.size(), 2u);
}

TEST_F(PoolHung, ARequestThatIsNotStreamedLeavesAReplicaWhoseCountersStandStillForAMinute) {
  // 1000 tokens of prompt take 1 s, and 100 of output 5 s.
  const struct {
    Tokens prompt;
    double after;
  } rows[]{{1000, 60}, {11'000, 8 * (11 + 5)}};
  for (const auto& row : rows) {
    begin(2);
    const double now = teach(0, 0);
    witness = Testimony::still;
    Lease lease = send(0, row.prompt, now, false);
    EXPECT_NEAR(out_at(0, now, now + 1000), now + row.after, 0.11);
    EXPECT_TRUE(changes.back().change.hung);
    EXPECT_THAT(changes.back().change.reason, testing::HasSubstr("its own counters stand still"));
    keys.clear();
  }
}

TEST_F(PoolHung, ARequestThatIsNotStreamedLeavesAReplicaWhoseProbeGetsNoAnswer) {
  begin(2);
  const double now = teach(0, 0);
  Lease lease = send(0, 1000, now, false);
  EXPECT_NEAR(out_at(0, now, now + 1000), now + 6, 0.11);
  EXPECT_TRUE(changes.back().change.hung);
}

TEST_F(PoolHung, WhatIsOnAReplicaWhoseProbesHaveFailedGoesElsewhere) {
  for (const bool stream : {true, false}) {
    for (const bool another : {true, false}) {
      begin(2);
      const double now = teach(0, 0);
      witness.reset();
      Lease lease = send(0, 50'000, now, stream);
      for (int i = 0; i < 3; ++i) pool->health().report(keys[0], Sign::probe_failed, at(now + 1));
      if (!another) pool->health().report(keys[1], Sign::refused, at(now + 1));
      EXPECT_EQ(hung_at(now, now + 20), another ? "a" : "");
      EXPECT_EQ(pool->health().of(keys[0], at(now + 20)).state, down);
      keys.clear();
    }
  }
}

TEST_F(PoolHung, EjectionCanBeSwitchedOff) {
  begin(2, false);
  const double now = teach(0, 0);
  Lease lease = send(0, 100, now);
  EXPECT_EQ(out_at(0, now, now + 100), 0);
}

TEST_F(PoolHung, OneThatComesBackIsAsFastAsItWas) {
  begin(2);
  double now = teach(0, teach(1, 0));
  {
    Lease stuck = send(0, 3000, now);
    now = out_at(0, now, now + 60);
    ASSERT_GT(now, 0);
    stuck.end(LeaseEnd(EndCause::replica_failed), at(now));
  }
  now += 15;
  pool->health().report(keys[0], Sign::probe_passed, at(now));
  Lease lease = send(0, 1000, now);
  lease.first_token(at(now + 1));
  EXPECT_EQ(pool->figures().load(0, at(now + 1)).speed, 1);
  EXPECT_EQ(pool->figures().load(1, at(now + 1)).speed, 1);
}

TEST_F(PoolHung, TheStreamsThatHangDoNotTakeItOutAgain) {
  begin(2);
  const double now = teach(0, 0);
  Lease stuck = send(0, 100, now);
  const double out = out_at(0, now, now + 60);
  pool->health().report(keys[0], Sign::probe_passed, at(out + 5));
  pool->health().take_changes(at(out + 10));
  EXPECT_EQ(pool->health().of(keys[0], at(out + 10)).state, starting);
  EXPECT_EQ(out_at(0, out + 10, out + 60), 0);
  Lease again = send(0, 100, out + 60);
  EXPECT_NEAR(out_at(0, out + 60, out + 90), out + 65, 0.1);
}

// Each story ends with whether the suspicion is confirmed.
TEST(Suspicion, IsConfirmedByWhomNobodyHasContradictedSince) {
  struct Word {
    Testimony what;
    double asked, told;
  };
  using enum Testimony;
  const struct {
    const char* what;
    std::vector<Word> words;
    bool confirmed, still = false;
  } stories[]{
      {"a probe without an answer", {{mute, 2, 3}}, true},
      {"an ill one", {{ill, 2, 3}}, true},
      {"an ill one that answered before", {{answered, 2, 3}, {ill, 2, 4}}, true},
      {"a later answer clears it", {{mute, 2, 3}, {answered, 3, 4}}, false},
      {"an answer while the probe was under way", {{answered, 2, 4}, {mute, 3, 5}}, false},
      {"a probe that began after the answer", {{answered, 2, 3}, {mute, 4, 5}}, true},
      {"counters that stand still", {{still, 2, 3}}, false, true},
      {"an answer says nothing of counters", {{answered, 2, 3}}, false},
  };
  for (const auto& [what, words, confirmed, still] : stories) {
    Suspicion suspicion;
    suspicion.hear(ill, at(0), at(0));
    EXPECT_FALSE(suspicion.is_confirmed()) << "nobody was suspected yet";
    suspicion.begin(at(1));
    suspicion.begin(at(2));
    EXPECT_EQ(suspicion.take_new(), at(1)) << "the first time counts";
    EXPECT_FALSE(suspicion.take_new());
    suspicion.hear(mute, at(1), at(2));
    EXPECT_FALSE(suspicion.is_confirmed()) << "its books may explain it";
    suspicion.stand(true, false, at(2));
    EXPECT_EQ(suspicion.take_new(), at(2)) << "its witnesses are asked anew";
    EXPECT_FALSE(suspicion.take_new());
    for (const auto& word : words) suspicion.hear(word.what, at(word.asked), at(word.told));
    EXPECT_EQ(suspicion.is_confirmed(), confirmed) << what;
    EXPECT_EQ(suspicion.stands_still(), still) << what;
    suspicion.end();
    EXPECT_FALSE(suspicion.is_on() || suspicion.is_confirmed() || suspicion.stands_still());
    suspicion.begin(at(9));
    EXPECT_EQ(suspicion.take_new(), at(9)) << "a new one is told anew";
  }
}

}  // namespace
}  // namespace weir::balancer

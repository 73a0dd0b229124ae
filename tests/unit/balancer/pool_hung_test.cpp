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

class PoolHung : public PoolWithKeys {
 protected:
  void begin(std::size_t replicas, bool eject = true) {
    PoolWithKeys::begin(replicas, eject);
    changes.clear();
    suspected.clear();
    witness = Testimony::mute;
  }
  Lease send(ReplicaIndex to, Tokens prompt, double now, bool stream = true,
             std::optional<std::uint64_t> max_tokens = 100) {
    RequestFacts facts = prompt_of(prompt);
    facts.stream = stream;
    facts.max_tokens = max_tokens;
    return PoolWithKeys::send(to, facts, now);
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

  std::vector<ReplicaChange> changes;
  std::vector<double> suspected;
  std::optional<Testimony> witness = Testimony::mute;  ///< Each suspicion brings this at once.
};

/// A request that gets nothing more.
struct Sent {
  Tokens prompt;
  bool stream, begun = false, unread = false;
  std::optional<std::uint64_t> max_tokens = 100;
  double after = 0;
};
Sent streamed(Tokens prompt) { return {prompt, true}; }
Sent begun(Tokens prompt) { return {prompt, true, true}; }
Sent unread(Sent sent) { return sent.unread = true, sent; }
Sent unstreamed(Tokens prompt, std::optional<std::uint64_t> max_tokens = 100) {
  return {prompt, false, false, false, max_tokens};
}
Sent later(double seconds, Sent sent) { return sent.after = seconds, sent; }

/// A replica that prefills 1000 tokens and decodes 20 a second falls silent.
struct Silence {
  const char* what;
  std::vector<Sent> sent;
  std::optional<Testimony> witness;
  double out_after;  ///< 0: it stays in.
  std::string_view reason{};
  std::optional<Tokens> context{};
  bool rate_is_known = true;
  double within = 0.11;
};

TEST_F(PoolHung, ASilentReplicaIsOutOnceNothingExplainsItsSilence) {
  using enum Testimony;
  constexpr auto no_limit = std::numeric_limits<Tokens>::max();
  constexpr std::string_view due = "where an answer was due after", stands_still = "its own counters stand still";
  constexpr std::string_view no_life =
      "it gave no sign of life for 5.0 s, and its probe did not pass, so it is out for 10 s and until a probe passes";
  constexpr std::string_view no_token =
      "none of its streams got a token for 60.0 s, where one was due after 0.1 s, so it is out for 10 s and until a "
      "probe passes";
  const Silence rows[] = {
      {"no answer to its probe", {streamed(100)}, mute, 5, no_life},
      {"its probe says that it is ill", {streamed(100)}, ill, 5},
      {"its probe is answered", {streamed(100)}, answered, 60, no_token},
      {"no witness", {streamed(100)}, {}, 60},
      {"four times what the books say", {unread(unstreamed(2000)), streamed(3000)}, mute, 4 * 5, {}, {}, true, 0.3},
      {"a long prompt behind it", {streamed(100), streamed(50'000)}, mute, 5},
      {"a huge prompt where no rate is known", {streamed(100'000)}, mute, 0, {}, {}, false},
      {"a usual prompt where no rate is known", {streamed(1000)}, mute, 40, {}, {}, false},
      {"eight times the prefill of all", {begun(100), streamed(60'000)}, answered, 480, {}, {}, true, 5},
      {"of what is not streamed too", {begun(100), unstreamed(60'000)}, answered, 480, {}, {}, true, 5},
      {"a stream left unread", {unread(begun(100))}, mute, 0},
      {"which hides no other's silence", {unread(begun(100)), later(100, streamed(100))}, mute, 105},
      {"an answer that is not streamed", {unstreamed(1000)}, mute, 6},
      {"counters that stand still", {unstreamed(1000)}, still, 60, stands_still},
      {"counters that stand still in a long prompt", {unstreamed(11'000)}, still, 8 * (11 + 5), stands_still},
      // An engine that tells no counters and whose door is open: nothing but time tells that it does nothing.
      {"many times the longest output", {unstreamed(1000)}, answered, 300, due},
      {"a higher limit", {unstreamed(1000, 1000)}, answered, 8 * (1 + 50), due},
      {"a limit above the context", {unstreamed(1000, 1000)}, answered, 300, due, 100},
      {"no limit but the context", {unstreamed(1000, {})}, answered, 8 * (1 + 100), due, 2000},
      {"a limit that says nothing", {unstreamed(1000, no_limit)}, answered, 8 * (1 + 100), due, 2000},
      {"neither limit nor context", {unstreamed(1000, {})}, answered, 0},
      {"neither context nor a limit that says anything", {unstreamed(1000, no_limit)}, answered, 0},
      {"a long answer before it", {unstreamed(100, 16'000), later(1, unstreamed(100))}, answered, 0},
      {"a long answer behind it", {unstreamed(100), later(1, unstreamed(100, 16'000))}, answered, 300},
      // An engine that works on one request at a time shows nothing while that has an answer that is not streamed.
      {"a stream behind a long answer", {unstreamed(100, 16'000), streamed(100)}, answered, 0},
      {"a stream that had begun beside a long answer", {unstreamed(100, 16'000), begun(100)}, answered, 60},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    begin(2);
    const double now = row.rate_is_known ? teach(0, 0) : 0;
    for (const auto& key : keys) pool->health().engine_told(key, {{}, row.context});
    witness = row.witness;
    std::vector<Lease> leases;
    double from = now;
    for (const auto& sent : row.sent) {
      out_at(0, from, now + sent.after);
      from = now + sent.after;
      auto& lease = leases.emplace_back(send(0, sent.prompt, from, sent.stream, sent.max_tokens));
      if (sent.begun) lease.first_token(at(from));
      if (sent.unread) lease.leave_unread(true);
    }
    EXPECT_NEAR(out_at(0, from, now + 1700), row.out_after > 0 ? now + row.out_after : 0, row.within);
    if (row.reason == no_token) EXPECT_THAT(suspected, testing::ElementsAre(testing::DoubleNear(now + 5, 0.06)));
    if (row.out_after == 0) continue;
    ASSERT_FALSE(changes.empty());
    EXPECT_EQ(changes.back().replica, "a");
    EXPECT_TRUE(changes.back().change.hung);
    EXPECT_EQ(changes.back().change.to, ejected);
    EXPECT_THAT(changes.back().change.reason, testing::HasSubstr(row.reason));
  }
}

TEST_F(PoolHung, TheOnlyReplicaKeepsItsRequests) {
  begin(1);
  const double now = teach(0, 0);
  Lease lease = send(0, 100, now);
  EXPECT_EQ(out_at(0, now, now + 100), 0);
}

TEST_F(PoolHung, EjectionCanBeSwitchedOff) {
  begin(2, false);
  const double now = teach(0, 0);
  Lease lease = send(0, 100, now);
  EXPECT_EQ(out_at(0, now, now + 100), 0);
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

TEST_F(PoolHung, TheLastHalfKeepsItsRequestsUntilAnotherIsBack) {
  begin(2);
  const double now = teach(0, 0);
  Lease lease = send(0, 100, now);
  pool->health().report(keys[1], Sign::refused, at(now));
  EXPECT_EQ(out_at(0, now, now + 30), 0) << "the other one is down";
  pool->health().report(keys[1], Sign::probe_passed, at(now + 30));
  EXPECT_NEAR(out_at(0, now + 30, now + 31), now + 30, 0.06);
}

TEST_F(PoolHung, OneWhoseCountersMoveIsSuspectedAgainAndNeverOut) {
  begin(2);
  const double now = teach(0, 0);
  witness = Testimony::works;
  Lease lease = send(0, 100, now);
  EXPECT_EQ(out_at(0, now, now + 300), 0);
  EXPECT_NEAR(static_cast<double>(suspected.size()), 59, 2);
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
  for (int i = 0; i < 4; ++i) seen.insert(admitted(place(*pool, prompt_of(10), at(now + 10))).replica());
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
  }
}

TEST_F(PoolHung, WhileASuspicionStandsOthersArePreferred) {
  begin(3);
  const double now = teach(0, 0);
  witness = Testimony::answered;
  const auto sends = [&](double when) { return admitted(place(*pool, prompt_of(10), at(when))).replica(); };
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
  for (int i = 0; i < 2; ++i) seen.insert(admitted(place(*pool, prompt_of(10), at(100))).replica());
  EXPECT_EQ(seen.size(), 2u);
  out_at(0, 100, 121);
  EXPECT_EQ(suspected.size(), 2u);
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
    }
  }
}

TEST_F(PoolHung, WhatIsOnAReplicaWhoseHealthPathAnswersErrorsGoesOn) {
  for (const bool stream : {true, false}) {
    begin(2);
    const double now = teach(0, 0);
    witness.reset();
    Lease lease = send(0, 50'000, now, stream);
    for (int i = 0; i < 3; ++i) pool->health().ill(keys[0], 503, at(now + 1));
    EXPECT_EQ(hung_at(now, now + 20), "");
    EXPECT_EQ(pool->health().of(keys[0], at(now + 20)).state, down);
  }
}

TEST_F(PoolHung, OneThatComesBackIsAsFastAsItWas) {
  begin(2);
  double now = teach(0, teach(1, 0));
  const double before = pool->figures().load(0, at(now)).time.token;
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
  EXPECT_NEAR(pool->figures().load(0, at(now + 1)).time.token, before, before / 10);
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

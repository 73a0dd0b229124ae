#include "balancer/token_ledger.hpp"

#include "requests.hpp"

namespace weir::balancer {
namespace {

using Work = TokenLedger::Work;

constexpr Work stream(Tokens prompt, Tokens output) { return {prompt, output, true}; }
constexpr Work whole(Tokens prompt, Tokens output) { return {prompt, output, false}; }

TEST(TokenLedger, OnlyTheFirstFirstTokenCounts) {
  TokenLedger ledger(at(0));
  ledger.open(1, stream(500, 100), at(1));
  ledger.open(2, stream(300, 100), at(1));
  EXPECT_TRUE(ledger.first_token(1, at(2)));
  EXPECT_FALSE(ledger.first_token(1, at(3)));
  EXPECT_EQ(ledger.gauges().prefill_left, 300u);
  EXPECT_EQ(ledger.close(1, true, 100, 0, at(4)).first_token, at(2));
}

TEST(TokenLedger, TheOldestUnansweredIsTheOldestWithoutAFirstToken) {
  TokenLedger ledger(at(0));
  EXPECT_EQ(ledger.silence(at(0)).oldest_unanswered_seconds, 0.0);
  ledger.open(1, stream(1, 1), at(1));
  ledger.open(2, stream(1, 1), at(3));
  ledger.open(3, stream(1, 1), at(4));
  ledger.advance(at(8));
  EXPECT_DOUBLE_EQ(ledger.silence(at(8)).oldest_unanswered_seconds, 7);
  ledger.first_token(1, at(9));
  EXPECT_DOUBLE_EQ(ledger.silence(at(9)).oldest_unanswered_seconds, 6);
  ledger.close(2, false, 1, 0, at(9));
  EXPECT_DOUBLE_EQ(ledger.silence(at(9)).oldest_unanswered_seconds, 5);
  ledger.first_token(3, at(9));
  EXPECT_EQ(ledger.silence(at(9)).oldest_unanswered_seconds, 0.0);
}

TEST(TokenLedger, AnAnswerThatIsNotStreamedIsNeverTheOldestUnanswered) {
  TokenLedger ledger(at(0));
  ledger.open(1, whole(1, 1000), at(1));
  ledger.advance(at(500));
  EXPECT_EQ(ledger.silence(at(500)).oldest_unanswered_seconds, 0.0);
  ledger.open(2, stream(1, 1), at(501));
  ledger.open(3, whole(1, 1000), at(502));
  ledger.advance(at(504));
  EXPECT_DOUBLE_EQ(ledger.silence(at(504)).oldest_unanswered_seconds, 3) << "the stream behind it is";
  ledger.first_token(2, at(505));
  EXPECT_EQ(ledger.silence(at(505)).oldest_unanswered_seconds, 0.0);
}

// Request a runs in [1, 5] with its first token at 2; request b runs in [3, 9] with its first token at 7.
TEST(TokenLedger, IntegralsAndConcurrencyAreExact) {
  TokenLedger ledger(at(0));
  ledger.open(1, stream(10, 10), at(1));
  ledger.first_token(1, at(2));
  ledger.open(2, stream(10, 10), at(3));
  const Concurrency a = ledger.close(1, true, 10, 0, at(5)).concurrency;
  ledger.first_token(2, at(7));
  const Concurrency b = ledger.close(2, true, 10, 0, at(9)).concurrency;
  ledger.advance(at(20));

  EXPECT_DOUBLE_EQ(ledger.integrals().busy_seconds, 8);
  EXPECT_DOUBLE_EQ(ledger.integrals().prefill_seconds, 1 + 4);
  EXPECT_DOUBLE_EQ(ledger.integrals().decode_seconds, 3 + 2);
  EXPECT_EQ(a.in_flight_at_start, 0u);
  EXPECT_DOUBLE_EQ(a.in_flight_mean, (2 * 1 + 2 * 2) / 4.0);
  EXPECT_EQ(b.in_flight_at_start, 1u);
  EXPECT_DOUBLE_EQ(b.in_flight_mean, (2 * 2 + 4 * 1) / 6.0);
}

TEST(TokenLedger, APromptIsWorkedOnOnceThoseBeforeItAreDoneOrGone) {
  TokenLedger ledger(at(0));
  ledger.open(1, stream(90'000, 10), at(1));
  ledger.open(2, stream(10, 10), at(2));
  ledger.open(3, stream(10, 10), at(3));
  ledger.close(3, true, 10, 0, at(40));
  ledger.advance(at(50));
  EXPECT_DOUBLE_EQ(ledger.gauges().worked_seconds, 49);
  ledger.close(1, true, 10, 0, at(51));
  ledger.advance(at(52));
  EXPECT_DOUBLE_EQ(ledger.gauges().worked_seconds, 1) << "a client that gave up leaves no delay to the next";
  ledger.first_token(2, at(53));
  EXPECT_DOUBLE_EQ(ledger.gauges().worked_seconds, 0);
}

/// An engine may hold back one first token, for a grammar or a parser, and answer all others meanwhile.
TEST(TokenLedger, APromptThatAYoungerOneHasOvertakenKeepsNobodyWaiting) {
  TokenLedger ledger(at(0));
  ledger.open(1, stream(500, 100), at(1));
  ledger.open(2, stream(500, 100), at(2));
  ledger.open(3, stream(500, 100), at(2));
  ledger.advance(at(3));
  EXPECT_DOUBLE_EQ(ledger.gauges().worked_seconds, 2) << "1 may be worked on";
  ledger.first_token(2, at(4));
  ledger.advance(at(5));
  EXPECT_DOUBLE_EQ(ledger.gauges().worked_seconds, 1) << "3 is, and 1 does not matter";
  ledger.first_token(3, at(6));
  ledger.advance(at(60));
  EXPECT_DOUBLE_EQ(ledger.gauges().worked_seconds, 0);
  ledger.open(4, stream(500, 100), at(61));
  ledger.advance(at(63));
  EXPECT_DOUBLE_EQ(ledger.gauges().worked_seconds, 2) << "an engine that stands still now is seen";
  ledger.close(4, true, 100, 0, at(64));
  EXPECT_DOUBLE_EQ(ledger.gauges().worked_seconds, 0);
  ledger.first_token(1, at(65));
  ledger.close(1, true, 100, 0, at(66));
  ledger.open(5, stream(500, 100), at(70));
  ledger.advance(at(71));
  EXPECT_DOUBLE_EQ(ledger.gauges().worked_seconds, 1);
}

TEST(TokenLedger, ARequestThatTookNoTimeWasWithThoseThatWereThere) {
  TokenLedger ledger(at(0));
  ledger.open(1, stream(10, 10), at(1));
  ledger.open(2, stream(10, 10), at(1));
  EXPECT_DOUBLE_EQ(ledger.close(2, false, 10, 0, at(1)).concurrency.in_flight_mean, 2);
  EXPECT_DOUBLE_EQ(ledger.close(1, false, 10, 0, at(1)).concurrency.in_flight_mean, 1);
}

TEST(TokenLedger, RequestsThatAreNotStreamedDrainOldestFirst) {
  TokenLedger ledger(at(0));
  ledger.set_drain_rates({1000, 50});
  ledger.open(1, whole(500, 100), at(1));
  ledger.open(2, whole(1000, 100), at(1));

  ledger.advance(at(1.25));
  EXPECT_EQ(ledger.gauges().prefill_left, 250u + 1000u);
  EXPECT_EQ(ledger.gauges().decode_left, 200u);

  ledger.advance(at(2));  // The first was done at 1.5, and decodes since.
  EXPECT_EQ(ledger.gauges().prefill_left, 500u);
  EXPECT_EQ(ledger.gauges().decode_left, 75u + 100u);
  EXPECT_EQ(ledger.gauges().resident, 1500u + 25u);

  ledger.advance(at(100));
  EXPECT_EQ(ledger.gauges().prefill_left, 0u);
  EXPECT_EQ(ledger.gauges().decode_left, 0u);
  EXPECT_EQ(ledger.gauges().resident, 1500u + 200u);
  EXPECT_DOUBLE_EQ(ledger.integrals().prefill_seconds, 0.5 + 1.5);
  EXPECT_DOUBLE_EQ(ledger.integrals().decode_seconds, 98.5 + 97.5);

  ledger.close(1, true, 0, 0, at(100));
  ledger.close(2, false, 0, 0, at(100));
  EXPECT_EQ(ledger.gauges().prefill_left,
            0u);  // Its prompt had left the queue, because a late failure is not a fast one.
  EXPECT_EQ(ledger.gauges().decode_left, 0u);
  EXPECT_EQ(ledger.gauges().resident, 0u);
}

TEST(TokenLedger, DrainingDoesNotDependOnHowOftenSomebodyLooks) {
  TokenLedger once(at(0)), often(at(0));
  for (TokenLedger* ledger : {&once, &often}) {
    ledger->set_drain_rates({777, 33});
    ledger->open(1, whole(1000, 100), at(0));
    ledger->open(2, stream(300, 50), at(0));
    ledger->open(3, whole(500, 60), at(0));
  }
  for (int i = 1; i <= 200; ++i) often.advance(at(0.01 * i));
  once.advance(at(2));
  // Rounding may keep the last token.
  EXPECT_NEAR(static_cast<double>(once.gauges().prefill_left), static_cast<double>(often.gauges().prefill_left), 1);
  EXPECT_NEAR(static_cast<double>(once.gauges().decode_left), static_cast<double>(often.gauges().decode_left), 2);
  EXPECT_NEAR(static_cast<double>(once.gauges().resident), static_cast<double>(often.gauges().resident), 2);
  EXPECT_NEAR(once.integrals().prefill_seconds, often.integrals().prefill_seconds, 1e-9);
  EXPECT_NEAR(once.integrals().decode_seconds, often.integrals().decode_seconds, 1e-9);
}

TEST(TokenLedger, AStreamedPromptTakesItsTurnButStaysUntilItsFirstToken) {
  TokenLedger ledger(at(0));
  ledger.set_drain_rates({1000, 50});
  ledger.open(1, stream(500, 10), at(0));
  ledger.open(2, whole(500, 10), at(0));
  ledger.advance(at(0.5));
  EXPECT_EQ(ledger.gauges().prefill_left, 1000u);
  ledger.advance(at(0.75));
  EXPECT_EQ(ledger.gauges().prefill_left, 500u + 250u);
  ledger.first_token(1, at(0.75));
  EXPECT_EQ(ledger.gauges().prefill_left, 250u);
}

TEST(TokenLedger, ARealFirstTokenOverridesTheDraining) {
  TokenLedger ledger(at(0));
  ledger.set_drain_rates({100, 50});
  ledger.open(1, whole(500, 100), at(0));
  ledger.advance(at(1));
  EXPECT_EQ(ledger.gauges().prefill_left, 400u);
  EXPECT_EQ(ledger.first_token(1, at(1)), 100u);  // From now on the lease takes them off.
  EXPECT_EQ(ledger.gauges().prefill_left, 0u);
  ledger.advance(at(50));
  EXPECT_EQ(ledger.gauges().decode_left, 100u);
  ledger.streamed().stream(40, 40);
  ledger.close(1, true, 60, 40, at(51));
  EXPECT_EQ(ledger.gauges().decode_left, 0u);
  EXPECT_EQ(ledger.gauges().resident, 0u);
}

TEST(TokenLedger, TheStreamedCountersHaveACacheLineOfTheirOwn) {
  EXPECT_EQ(alignof(StreamedTokens), 64u);
  EXPECT_EQ(sizeof(StreamedTokens), 64u);
}

TEST(TokenLedger, AStreamThatIsLeftUnreadOwesNothing) {
  TokenLedger ledger(at(0));
  ledger.open(1, {100, 10, true}, at(1));
  ledger.first_token(1, at(2));
  EXPECT_DOUBLE_EQ(ledger.silent_seconds(at(5)), 3);
  ledger.leave_unread(1, true, at(5));
  EXPECT_EQ(ledger.silent_seconds(at(100)), 0);
  ledger.leave_unread(1, false, at(100));
  EXPECT_DOUBLE_EQ(ledger.silent_seconds(at(104)), 4) << "it counts from then on";
  ledger.leave_unread(1, true, at(104));
  ledger.close(1, false, 0, 0, at(105));
  ledger.open(2, {100, 10, true}, at(105));
  EXPECT_DOUBLE_EQ(ledger.silent_seconds(at(107)), 2) << "what ends unread is owed no more";
}

TEST(TokenLedger, TheOldestThatIsNotStreamedIsSilentSinceItCameOrSinceTheLastSignOfLife) {
  TokenLedger ledger(at(0));
  ledger.open(1, {100, 10, true}, at(1));
  EXPECT_FALSE(ledger.silence(at(1)).unstreamed);
  ledger.open(2, {300, 20, false}, at(2));
  ledger.open(3, {900, 30, false}, at(3));
  const auto oldest = ledger.silence(at(8)).unstreamed;
  ASSERT_TRUE(oldest);
  EXPECT_DOUBLE_EQ(oldest->silent_seconds, 6);
  EXPECT_EQ(oldest->prompt, 400u) << "with the stream's that lies before it";
  EXPECT_EQ(oldest->output, 20u);
  ledger.streamed().show(1, 1);
  EXPECT_DOUBLE_EQ(ledger.silence(at(9)).unstreamed->silent_seconds, 0);
  EXPECT_DOUBLE_EQ(ledger.silence(at(11)).unstreamed->silent_seconds, 2);
  ledger.lives(at(12));
  EXPECT_DOUBLE_EQ(ledger.silence(at(13)).unstreamed->silent_seconds, 1);
  ledger.leave_unread(2, true, at(13));
  EXPECT_EQ(ledger.silence(at(14)).unstreamed->output, 30u) << "nobody reads the other one";
  ledger.forget_silence();
  EXPECT_FALSE(ledger.silence(at(15)).unstreamed);
}

TEST(TokenLedger, ASignOfLifeIsDatedByTheCallThatSeesIt) {
  TokenLedger ledger(at(0));
  EXPECT_FALSE(ledger.last_life(at(1)));
  ledger.open(1, {100, 10, true}, at(1));
  EXPECT_FALSE(ledger.last_life(at(2)));
  ledger.streamed().show(1, 1);
  EXPECT_EQ(ledger.last_life(at(3)), at(3));
  EXPECT_EQ(ledger.last_life(at(8)), at(3));
}

TEST(TokenLedger, SilenceIsTheTimeInWhichNoStreamGotATokenThatItWasToGet) {
  TokenLedger ledger(at(0));
  EXPECT_EQ(ledger.silent_seconds(at(100)), 0) << "there is no stream";
  ledger.open(1, {100, 10, true}, at(101));
  EXPECT_DOUBLE_EQ(ledger.silent_seconds(at(104)), 3) << "it waits for its first token";
  ledger.open(2, {100, 10, true}, at(104));
  ledger.first_token(1, at(105));
  EXPECT_DOUBLE_EQ(ledger.silent_seconds(at(106)), 1) << "any token of any stream counts";
  ledger.streamed().show(1, 1);
  EXPECT_EQ(ledger.silent_seconds(at(109)), 0);
  EXPECT_DOUBLE_EQ(ledger.silent_seconds(at(112)), 3) << "between two tokens, too";
  ledger.close(1, true, 9, 1, at(112));
  ledger.close(2, false, 10, 0, at(112));
  EXPECT_EQ(ledger.silent_seconds(at(113)), 0);
  ledger.open(3, {100, 10, true}, at(200));
  EXPECT_DOUBLE_EQ(ledger.silent_seconds(at(202)), 2) << "the time before it came says nothing";
}

TEST(TokenLedger, WhatIsDueBeforeTheOldestFirstTokenIsWhatCameBeforeItAndItself) {
  TokenLedger ledger(at(0));
  ledger.open(1, {1000, 0, false}, at(1));
  EXPECT_EQ(ledger.silence(at(1)).due_to_first_token, 0u);
  ledger.open(2, {300, 10, true}, at(1));
  ledger.open(3, {9000, 10, true}, at(1));
  EXPECT_EQ(ledger.silence(at(1)).due_to_first_token, 1300u);
  EXPECT_EQ(ledger.silence(at(1)).unanswered, 10'300u);
  ledger.first_token(2, at(2));
  EXPECT_EQ(ledger.silence(at(2)).due_to_first_token, 10'000u);
  ledger.first_token(3, at(2));
  EXPECT_EQ(ledger.silence(at(2)).due_to_first_token, 0u);
}

}  // namespace
}  // namespace weir::balancer

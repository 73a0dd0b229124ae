// A pool learns from answers: estimates, and the times of its replicas.
#include "balancer/pool.hpp"
#include "requests.hpp"

namespace weir::balancer {
namespace {

TEST(Pool, LearnsOnlyFromAnswers) {
  auto pool = pool_of({replica("a")});
  const Tokens before = admitted(place(*pool, chat_of(4000), at(1))).prompt_estimate();
  LeaseEnd failed = answer(2000, 10);
  failed.cause = EndCause::replica_failed;
  for (int i = 0; i < 50; ++i) admitted(place(*pool, chat_of(4000), at(1))).end(failed, at(1));
  EXPECT_EQ(admitted(place(*pool, chat_of(4000), at(1))).prompt_estimate(), before);
  EXPECT_EQ(pool->figures().load(0, at(10)).decode_left, 0u);

  for (int i = 0; i < 200; ++i) admitted(place(*pool, chat_of(4000), at(11))).end(answer(2000, 77), at(11));
  Lease lease = admitted(place(*pool, chat_of(4000), at(12)));
  EXPECT_NEAR(static_cast<double>(lease.prompt_estimate()), 2000, 20);
  EXPECT_EQ(pool->figures().load(0, at(12)).decode_left, 77u);
}

// Twenty streams teach the rates; then a request that is not streamed drains by them.
TEST(Pool, ARequestThatIsNotStreamedDrainsAtTheLearnedRates) {
  auto pool = pool_of({replica("a")});
  double now = 0;
  for (int i = 0; i < 40; ++i) {
    Lease lease = admitted(place(*pool, prompt_of(1000), at(now)));
    lease.first_token(at(now += 0.1));
    lease.tokens(51);
    lease.end(answer(1000, 51), at(now += 1));
  }
  Lease lease = admitted(place(*pool, not_streamed(prompt_of(1000)), at(now)));
  EXPECT_EQ(pool->figures().load(0, at(now)).prefill_left, 1000u);
  EXPECT_NEAR(static_cast<double>(pool->figures().load(0, at(now + 0.05)).prefill_left), 500, 30);
  const ReplicaLoad later = pool->figures().load(0, at(now + 0.5));
  EXPECT_EQ(later.prefill_left, 0u);
  EXPECT_NEAR(static_cast<double>(later.decode_left), 51 - 0.4 * 50, 2);
  EXPECT_EQ(later.oldest_unanswered_seconds, 0.0);
  lease.end(answer(1000, 51), at(now + 2));
  expect_idle(*pool, 1, at(now + 2));
}

TEST(Pool, AStreamWhoseTokensAreNotReadDrainsLikeOneThatIsNotStreamed) {
  auto pool = pool_of({replica("a")});
  double now = 0;
  for (int i = 0; i < 40; ++i) {
    Lease lease = admitted(place(*pool, prompt_of(1000), at(now)));
    lease.first_token(at(now += 0.1));
    lease.end(answer(1000, 51), at(now += 1));
  }
  RequestFacts unread = prompt_of(1000);
  unread.api = metrics::Api::other;
  Lease lease = admitted(place(*pool, unread, at(now)));
  EXPECT_EQ(pool->figures().load(0, at(now)).prefill_left, 1000u);
  EXPECT_EQ(pool->figures().load(0, at(now + 0.2)).prefill_left, 0u);
  lease.end(answer(), at(now + 2));
  expect_idle(*pool, 1, at(now + 2));
}

// Serves streams one after the other on the replica that is not in `others`; each has a prompt of 1000 tokens and takes
// `seconds`.
void serve(Pool& pool, std::span<const Serial> others, double& now, double seconds, const LeaseEnd& end,
           double decode = 0.001) {
  for (int i = 0; i < 40; ++i) {
    Lease lease = admitted(place(pool, prompt_of(1000), at(now), others));
    lease.first_token(at(now += seconds));
    lease.end(end, at(now += decode));
  }
}

double token_seconds(Pool& pool, ReplicaIndex replica, double now) {
  return pool.figures().load(replica, at(now)).time.token;
}

TEST(Pool, TokensFromThePrefixCacheAreNoWorkDone) {
  auto pool = pool_of({replica("a"), replica("b")});
  const Serial not_a[] = {2}, not_b[] = {1};
  double now = 0;
  for (int i = 0; i < 10; ++i) {
    serve(*pool, not_a, now, 0.1, answer(1000, 10, 0));
    serve(*pool, not_b, now, 0.1, answer(1000, 10, 500));
  }
  EXPECT_GT(token_seconds(*pool, 1, now), 1.3 * token_seconds(*pool, 0, now));
}

/// The pool with the same replicas, of which the second needs ten times as long.
struct PoolWithASlowOne : testing::Test {
  void SetUp() override {
    for (int i = 0; i < 5; ++i) {
      serve(*pool, not_a, now, 0.01, answer(1000, 2));
      serve(*pool, not_b, now, 0.1, answer(1000, 2));
    }
  }
  ReplicaIndex chosen(double when) {
    Lease lease = admitted(place(*pool, prompt_of(1000), at(when)));
    const ReplicaIndex replica = lease.replica();
    lease.first_token(at(when + 0.01));
    lease.end(answer(1000, 2), at(when + 0.02));
    return replica;
  }
  std::shared_ptr<Pool> pool = pool_of({replica("a"), replica("b")});
  const Serial not_a[1] = {2}, not_b[1] = {1};
  double now = 0;
};

TEST_F(PoolWithASlowOne, AnIdleFastReplicaIsAlwaysTheBetterChoice) {
  EXPECT_GT(token_seconds(*pool, 1, now), 5 * token_seconds(*pool, 0, now));
  for (int i = 0; i < 30; ++i) EXPECT_EQ(chosen(now + i), 0U);
}

TEST_F(PoolWithASlowOne, TheSlowOneIsTriedAgainOnceNothingHasTestedItForMinutes) {
  int tried = 0;
  for (int i = 0; i < 1200; ++i) tried += chosen(now + i) == 1 ? 1 : 0;
  EXPECT_GT(tried, 100) << "it has proved otherwise";
}

TEST_F(PoolWithASlowOne, ItsRequestsAreForeseenToTakeLonger) {
  const Lease fast = admitted(place(*pool, prompt_of(1000), at(now), not_a));
  const Lease slow = admitted(place(*pool, prompt_of(1000), at(now), not_b));
  ASSERT_TRUE(fast.predicted() && slow.predicted());
  EXPECT_NEAR(fast.predicted()->ttft, 0.01, 0.003);
  EXPECT_NEAR(slow.predicted()->ttft, 0.1, 0.03);
}

/// Usage counts the tokens of all choices together, and a step gives each choice one.
TEST(Pool, AnswersOfManyChoicesTeachNoStep) {
  auto pool = pool_of({replica("a")});
  double now = 0;
  const auto ask = [&](std::uint32_t choices) {
    RequestFacts facts = prompt_of(1000);
    facts.n = choices;
    Lease lease = admitted(place(*pool, facts, at(now)));
    lease.first_token(at(now += 0.05));
    lease.end(answer(1000, 100 * choices), at(now += 2));
  };
  for (int i = 0; i < 40; ++i) ask(1);
  const double step = pool->figures().load(0, at(now)).time.step;
  for (int i = 0; i < 40; ++i) ask(8);
  EXPECT_NEAR(pool->figures().load(0, at(now)).time.step / step, 1, 0.01);
}

/// A slow client holds up an answer, and not the engine.
TEST(Pool, AnAnswerThatWasLeftUnreadTeachesNoStep) {
  auto pool = pool_of({replica("a")});
  double now = 0;
  serve(*pool, {}, now, 0.05, answer(1000, 100), 2);
  const double step = pool->figures().load(0, at(now)).time.step;
  for (int i = 0; i < 10; ++i) {
    Lease lease = admitted(place(*pool, prompt_of(1000), at(now)));
    lease.first_token(at(now += 0.05));
    lease.leave_unread(true);
    lease.leave_unread(false);
    lease.end(answer(1000, 100), at(now += 60));
  }
  EXPECT_NEAR(pool->figures().load(0, at(now)).time.step / step, 1, 0.01);
}

/// A configuration that nobody knows is taken for the others': it gets requests, and shows what it can do.
TEST(Pool, AnUnknownConfigurationIsNotLeftIdle) {
  ReplicaSpec known = replica("a"), unknown = replica("b");
  known.config = "fp16", unknown.config = "fp8";
  auto pool = pool_of({known, unknown});
  const Serial not_a[] = {2};
  double now = 0;
  serve(*pool, not_a, now, 0.001, answer(1000, 10));
  int there = 0;
  for (int i = 0; i < 20; ++i) {
    Lease lease = admitted(place(*pool, prompt_of(1000), at(now)));
    there += lease.replica() == 1 ? 1 : 0;
    lease.first_token(at(now += 0.001));
    lease.end(answer(1000, 10), at(now += 0.001));
  }
  EXPECT_GT(there, 3);
}

TEST(Pool, NothingIsPredictedBeforeAnythingIsKnown) {
  auto pool = pool_of({replica("a")});
  EXPECT_FALSE(admitted(place(*pool, prompt_of(1000), at(1))).predicted());
}

/// A replica that does no work, and answers at once, teaches nothing.
TEST(Pool, EmptyAnswersTeachNoTimes) {
  auto pool = pool_of({replica("a"), replica("b")});
  const Serial not_a[] = {2}, not_b[] = {1};
  double now = 0;
  serve(*pool, not_a, now, 0.1, answer(1000, 10));
  const double before = token_seconds(*pool, 1, now);
  serve(*pool, not_b, now, 0.0001, answer(1000, 0));
  EXPECT_DOUBLE_EQ(token_seconds(*pool, 1, now), before);
}

/// Engines hold prompts back while their batch is full: the pool sees that, and that it is over.
TEST(Pool, SeesHowManySequencesAnEngineRuns) {
  auto pool = pool_of({replica("a"), replica("b")});
  const Serial not_a[] = {2}, not_b[] = {1};
  double now = 0;
  serve(*pool, not_a, now, 0.05, answer(1000, 100), 2);
  serve(*pool, not_b, now, 0.05, answer(1000, 100), 2);
  std::vector<Lease> batch;
  for (int i = 0; i < 6; ++i) {
    batch.push_back(admitted(place(*pool, prompt_of(1000), at(now), not_a)));
    batch.back().first_token(at(now += 0.05));
  }
  double quick = 0;
  for (const bool twice : {false, true}) {
    Lease held_back = admitted(place(*pool, prompt_of(1000), at(now), not_a));
    if (!twice) quick = held_back.predicted()->ttft;
    EXPECT_NEAR(held_back.predicted()->ttft / quick, 1, 0.5) << "once says little";
    now += 5;
    batch.front().end(answer(1000, 100), at(now));
    held_back.first_token(at(now += 0.05));
    batch.front() = std::move(held_back);
  }
  const Lease next = admitted(place(*pool, prompt_of(1000), at(now), not_a));
  EXPECT_GT(next.predicted()->ttft, 1.5 * quick) << "an answer has to end before it begins";
}

/// Clients that give up say how long there was nothing: else a replica that has become slow would look idle, and would
/// get request after request.
TEST(Pool, AReplicaWhoseClientsGiveUpLooksSlow) {
  auto pool = pool_of({replica("a"), replica("b")});
  const Serial not_a[] = {2}, not_b[] = {1};
  double now = 0;
  for (int i = 0; i < 20; ++i) {
    serve(*pool, not_a, now, 0.05, answer(1000, 100), 2);
    serve(*pool, not_b, now, 0.05, answer(1000, 100), 2);
  }
  for (int i = 0; i < 3; ++i) {
    Lease lease = admitted(place(*pool, prompt_of(1000), at(now), not_a));
    lease.end(LeaseEnd(EndCause::client_left), at(now += 30));
  }
  const Lease next = admitted(place(*pool, prompt_of(1000), at(now), not_a));
  EXPECT_GT(next.predicted()->ttft, 0.25) << "0.05 s before";
  Lease soon = admitted(place(*pool, prompt_of(1000), at(now), not_b));
  const double before = soon.predicted()->ttft;
  soon.end(LeaseEnd(EndCause::client_left), at(now += 0.01));
  EXPECT_NEAR(admitted(place(*pool, prompt_of(1000), at(now), not_b)).predicted()->ttft / before, 1, 0.1)
      << "one that leaves at once says nothing";
}

}  // namespace
}  // namespace weir::balancer

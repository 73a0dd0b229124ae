// What a pool learns from answers: estimates, rates, and the speeds of its replicas.
#include "balancer/pool.hpp"
#include "requests.hpp"

namespace weir::balancer {
namespace {

TEST(Pool, LearnsOnlyFromAnswers) {
  auto pool = pool_of({replica("a")});
  const Tokens before = admitted(pool->offer(chat_of(4000), at(1))).prompt_estimate();
  LeaseEnd failed = answer(2000, 10);
  failed.cause = EndCause::replica_failed;
  for (int i = 0; i < 50; ++i) admitted(pool->offer(chat_of(4000), at(1))).end(failed, at(1));
  EXPECT_EQ(admitted(pool->offer(chat_of(4000), at(1))).prompt_estimate(), before);
  EXPECT_EQ(pool->figures().load(0, at(10)).decode_left, 0u);

  for (int i = 0; i < 200; ++i) admitted(pool->offer(chat_of(4000), at(11))).end(answer(2000, 77), at(11));
  Lease lease = admitted(pool->offer(chat_of(4000), at(12)));
  EXPECT_NEAR(static_cast<double>(lease.prompt_estimate()), 2000, 20);
  EXPECT_EQ(pool->figures().load(0, at(12)).decode_left, 77u);
}

// Twenty streams teach the rates; then a request that is not streamed drains by them.
TEST(Pool, ARequestThatIsNotStreamedDrainsAtTheLearnedRates) {
  auto pool = pool_of({replica("a")});
  double now = 0;
  for (int i = 0; i < 40; ++i) {
    Lease lease = admitted(pool->offer(prompt_of(1000), at(now)));
    lease.first_token(at(now += 0.1));
    lease.tokens(51);
    lease.end(answer(1000, 51), at(now += 1));
  }
  Lease lease = admitted(pool->offer(not_streamed(prompt_of(1000)), at(now)));
  EXPECT_EQ(pool->figures().load(0, at(now)).prefill_left, 1000u);
  EXPECT_NEAR(static_cast<double>(pool->figures().load(0, at(now + 0.05)).prefill_left), 500, 2);
  const ReplicaLoad later = pool->figures().load(0, at(now + 0.5));
  EXPECT_EQ(later.prefill_left, 0u);
  EXPECT_NEAR(static_cast<double>(later.decode_left), 51 - 0.4 * 50, 1);
  EXPECT_EQ(later.oldest_unanswered_seconds, 0.0);
  lease.end(answer(1000, 51), at(now + 2));
  expect_idle(*pool, 1, at(now + 2));
}

TEST(Pool, AStreamWhoseTokensAreNotReadDrainsLikeOneThatIsNotStreamed) {
  auto pool = pool_of({replica("a")});
  double now = 0;
  for (int i = 0; i < 40; ++i) {
    Lease lease = admitted(pool->offer(prompt_of(1000), at(now)));
    lease.first_token(at(now += 0.1));
    lease.end(answer(1000, 51), at(now += 1));
  }
  RequestFacts unread = prompt_of(1000);
  unread.api = metrics::Api::other;
  Lease lease = admitted(pool->offer(unread, at(now)));
  EXPECT_EQ(pool->figures().load(0, at(now)).prefill_left, 1000u);
  EXPECT_EQ(pool->figures().load(0, at(now + 0.2)).prefill_left, 0u);
  lease.end(answer(), at(now + 2));
  expect_idle(*pool, 1, at(now + 2));
}

// Serves streams one after the other on the replica that is not in `others`; each has a prompt of 1000 tokens and takes
// `seconds`.
void serve(Pool& pool, std::span<const Serial> others, double& now, double seconds, const LeaseEnd& end) {
  for (int i = 0; i < 400; ++i) {
    Lease lease = admitted(pool.offer(prompt_of(1000), at(now), others));
    lease.first_token(at(now += seconds));
    lease.end(end, at(now));
  }
}

TEST(Pool, TokensFromThePrefixCacheAreNoWorkDone) {
  auto pool = pool_of({replica("a"), replica("b"), replica("c")});
  const Serial not_a[] = {2, 3}, not_b[] = {1, 3}, not_c[] = {1, 2};
  double now = 0;
  serve(*pool, not_a, now, 0.1, answer(1000, 10));
  serve(*pool, not_b, now, 0.1, answer(1000, 10, 0));
  serve(*pool, not_c, now, 0.1, answer(1000, 10, 500));
  EXPECT_EQ(pool->figures().load(0, at(now)).speed, 1);
  EXPECT_EQ(pool->figures().load(1, at(now)).speed, 1);
  EXPECT_NEAR(pool->figures().load(2, at(now)).speed, 0.5, 0.01);
}

TEST(Pool, AReplicaThatWasSlowIsTriedAgainOnceNothingHasProvedItForAMinute) {
  auto pool = pool_of({replica("a"), replica("b")});
  const Serial not_a[] = {2}, not_b[] = {1};
  double now = 0;
  serve(*pool, not_a, now, 0.01, answer());
  serve(*pool, not_b, now, 0.05, answer());
  ASSERT_LT(pool->figures().load(1, at(now)).speed, 0.5);
  const auto chosen = [&](double when) {
    Lease lease = admitted(pool->offer(prompt_of(1000), at(when)));
    const ReplicaIndex replica = lease.replica();
    lease.first_token(at(when + 0.01));
    lease.end(answer(), at(when + 0.01));
    return replica;
  };
  for (int i = 0; i < 50; ++i) EXPECT_EQ(chosen(now + i), 0U) << "an idle fast one is always the better choice";
  int tried = 0;
  for (int i = 0; i < 50; ++i) tried += chosen(now + 61 + i) == 1 ? 1 : 0;
  EXPECT_GT(tried, 15);
  EXPECT_EQ(pool->figures().load(1, at(now + 200)).speed, 1) << "it has proved otherwise";
}

TEST(Pool, ARemovedReplicaIsNotCompared) {
  auto pool = pool_of({replica("a"), replica("b"), replica("c")});
  const Serial not_a[] = {2, 3}, not_b[] = {1, 3}, not_c[] = {1, 2};
  double now = 0;
  serve(*pool, not_a, now, 0.1, answer());
  serve(*pool, not_b, now, 0.1, answer());
  serve(*pool, not_c, now, 0.2, answer());
  EXPECT_NEAR(pool->figures().load(2, at(now)).speed, 0.5, 0.01);
  const ReplicaSpec left[] = {replica("c")};
  pool->set_replicas(left, at(now));
  EXPECT_EQ(pool->figures().load(2, at(now)).speed, 1);
}

TEST(Pool, AnswersThatAreNotStreamedSayNothingOfSpeed) {
  auto pool = pool_of({replica("a"), replica("b")});
  const Serial not_a[] = {2}, not_b[] = {1};
  double now = 0;
  serve(*pool, not_a, now, 0.1, answer());
  for (int i = 0; i < 400; ++i) {
    Lease stream = admitted(pool->offer(prompt_of(1000), at(now), not_b));
    Lease whole = admitted(pool->offer(not_streamed(prompt_of(9000)), at(now), not_b));
    stream.first_token(at(now += 0.1));
    whole.first_token(at(now));
    whole.end(answer(9000, 10), at(now));
    stream.end(answer(1000, 10), at(now));
  }
  EXPECT_EQ(pool->figures().load(0, at(now)).speed, 1);
  EXPECT_EQ(pool->figures().load(1, at(now)).speed, 1);
}

}  // namespace
}  // namespace weir::balancer

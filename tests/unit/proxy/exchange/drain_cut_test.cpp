// limits.drain is over, for a replica or for weir: what still runs ends, and that is nobody's failure.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

using metrics::series::Retry;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class DrainCut : public testing::Test {
 protected:
  std::shared_ptr<net::Peer> asks(const std::string& beginning) {
    proxy.plan[0] = {says(beginning)};
    const auto client = proxy.client(post(chat(true)));
    proxy.run();
    return client;
  }
  void cut_the_replica() {
    proxy.replica().state->cut = true;
    proxy.tick(Clock::now());
  }
  void cut_all() {
    proxy.shared.cutting = true;
    proxy.tick(Clock::now());
  }
  /// Five failures in a row would put it out.
  void expect_no_failure_of_the_replica() {
    auto& pool = *proxy.snapshot->pools.front()->balancer;
    for (int i = 0; i < 4; ++i) pool.health().report(proxy.replica().key, balancer::Sign::failed, Clock::now());
    EXPECT_EQ(pool.health().of(proxy.replica().key, Clock::now()).state, metrics::ReplicaState::up);
    const auto books = pool.figures().load(proxy.replica().key.index, Clock::now());
    EXPECT_EQ(books.prefill_left, 0u) << "a failure is remembered for a second";
    proxy.expect_at_rest();
  }
  ScriptedProxy proxy{2, [](config::Settings& settings) { settings.pools.front().queue.requests = 256; }};
};

TEST_F(DrainCut, TellsAStreamsClientAndTheLog) {
  for (const bool all : {false, true}) {
    ScriptedProxy one;
    one.plan[0] = {says(stream_head + chunk_of(event("a")))};
    const auto client = one.client(post(chat(true)));
    one.run();
    (all ? one.shared.cutting : one.replica().state->cut) = true;
    one.tick(Clock::now());
    EXPECT_THAT(client->got, AllOf(HasSubstr("limits.drain"), Not(HasSubstr("stopped sending"))));
    EXPECT_FALSE(read_answer(client->got).whole);
    EXPECT_TRUE(client->closed());
    EXPECT_TRUE(one.connections[0].front()->closed());
    EXPECT_THAT(one.log_lines(),
                ElementsAre(AllOf(HasSubstr(R"("outcome":"rejected")"), HasSubstr(R"("phase":"decode")"),
                                  HasSubstr(R"("replica":"gpu0")"), HasSubstr(R"("status":200)"))));
  }
}

TEST_F(DrainCut, IsNoFailureOfTheReplica) {
  asks(stream_head + chunk_of(event("a")));
  cut_the_replica();
  expect_no_failure_of_the_replica();
}

TEST_F(DrainCut, SendsElsewhereWhatHasReachedNoClient) {
  for (const auto& beginning : {std::string(), stream_head}) {
    ScriptedProxy two(2, [](config::Settings& settings) { settings.limits.retry_budget = 0; });
    two.plan[0] = {says(beginning)};
    two.plan[1] = {says(streamed_answer())};
    const auto client = two.client(post(chat(true)));
    two.run();
    two.replica().state->cut = true;
    two.tick(Clock::now());
    EXPECT_TRUE(read_answer(client->got).whole);
    EXPECT_THAT(two.log_lines(), ElementsAre(AllOf(HasSubstr(R"("outcome":"ok")"), HasSubstr(R"("attempt":2)"))));
    EXPECT_EQ(two.retries(Retry::drain), 1u);
    two.expect_at_rest();
  }
}

TEST_F(DrainCut, SendsElsewhereWhatIsStillConnecting) {
  proxy.on_connect[0] = [](net::Peer&) {};
  proxy.plan[1] = {says(streamed_answer())};
  const auto client = proxy.client(post(chat(true)));
  proxy.run();
  cut_the_replica();
  EXPECT_TRUE(read_answer(client->got).whole);
  EXPECT_EQ(proxy.retries(Retry::drain), 1u);
  EXPECT_EQ(proxy.retries(Retry::connect), 0u);
  expect_no_failure_of_the_replica();
}

TEST_F(DrainCut, Is503WhereNobodyElseIsLeft) {
  proxy.snapshot->pools.front()->balancer->health().report(proxy.replica(1).key, balancer::Sign::refused, Clock::now());
  const auto client = asks("");
  cut_the_replica();
  EXPECT_THAT(client->got, AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("replica_drained"), HasSubstr("limits.drain"),
                                 HasSubstr("Retry-After: 1\r\n")));
  EXPECT_THAT(proxy.log_lines(),
              ElementsAre(AllOf(HasSubstr(R"("outcome":"rejected")"), HasSubstr(R"("phase":"prefill")"))));
  expect_no_failure_of_the_replica();
}

TEST_F(DrainCut, OfAllOfWeirIs503AndSaysSo) {
  const auto client = asks("");
  cut_all();
  EXPECT_THAT(client->got, AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("weir is stopping")));
  EXPECT_EQ(proxy.retries(Retry::drain), 0u) << "it goes nowhere else";
  EXPECT_THAT(proxy.connections[1], IsEmpty());
  EXPECT_THAT(proxy.log_lines(), ElementsAre(HasSubstr(R"("outcome":"rejected")")));
}

TEST_F(DrainCut, DoesNotWaitForASlowClient) {
  const auto client = asks(stream_head + chunk_of(event("a")));
  client->takes_nothing();
  proxy.connections[0].front()->says(chunk_of(event("b")));
  proxy.run();
  cut_the_replica();
  EXPECT_TRUE(client->closed());
  EXPECT_THAT(proxy.log_lines(), ElementsAre(HasSubstr(R"("outcome":"rejected")")));
  expect_no_failure_of_the_replica();
}

TEST_F(DrainCut, OfAnAnswerThatItsClientStillTakesIsWeirsDoing) {
  const std::string much(100 * kib, 'x');
  const struct {
    std::string answer, request;
  } rows[]{{whole_answer("200 OK", R"({"choices":[{"message":{"content":")" + much + R"("}}]})"), post(chat(false))},
           {stream_head + chunk_of(event(much)) + stream_end, post(chat(true))}};
  for (const auto& [answer, request] : rows) {
    for (const bool leaves : {false, true}) {
      ScriptedProxy one;
      one.plan[0] = {says(answer)};
      const auto client = one.client();
      client->takes_nothing();
      client->takes(10 * kib);
      client->says(request);
      one.run();
      EXPECT_TRUE(one.connections[0].front()->got.size() > 0 && !client->closed());
      if (leaves) {
        client->breaks();
        one.run();
      } else {
        one.shared.cutting = true;
        one.tick(Clock::now());
      }
      EXPECT_TRUE(client->closed());
      const std::string outcome = leaves ? "client_abort" : "rejected";
      EXPECT_THAT(one.log_lines(), ElementsAre(AllOf(HasSubstr(R"("outcome":")" + outcome + '"'),
                                                     HasSubstr(R"("phase":"decode")"), HasSubstr(R"("status":200)"))));
      one.expect_at_rest();
    }
  }
}

TEST_F(DrainCut, LeavesAloneAnAnswerThatIsThereToItsEndMarker) {
  auto answer = streamed_answer();
  asks(answer.substr(0, answer.size() - 5));
  cut_the_replica();
  EXPECT_THAT(proxy.log_lines(), ElementsAre(HasSubstr(R"("outcome":"ok")")));
}

}  // namespace
}  // namespace weir::proxy::serve

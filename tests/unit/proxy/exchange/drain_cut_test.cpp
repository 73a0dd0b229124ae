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
    const auto client = proxy.asks(post(chat(true)));
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
    ScriptedProxy one({says(sse_head() + chunk(token("a")))});
    const auto client = one.asks(post(chat(true)));
    (all ? one.shared.cutting : one.replica().state->cut) = true;
    one.tick(Clock::now());
    EXPECT_THAT(client->got, AllOf(HasSubstr("limits.drain"), Not(HasSubstr("stopped sending"))));
    EXPECT_FALSE(read_answer(client->got).whole);
    EXPECT_TRUE(client->closed());
    EXPECT_TRUE(one.upstream().closed());
    EXPECT_THAT(one.log_lines(),
                ElementsAre(AllOf(HasSubstr(R"("outcome":"rejected")"), HasSubstr(R"("phase":"decode")"),
                                  HasSubstr(R"("replica":"gpu0")"), HasSubstr(R"("status":200)"))));
  }
}

TEST_F(DrainCut, SendsElsewhereWhatHasReachedNoClient) {
  for (const std::string beginning : {"connecting", "", "head"}) {
    ScriptedProxy two(2, without_budget());
    if (beginning == "connecting") two.on_connect[0] = [](net::Peer&) {};
    two.plan[0] = {says(beginning == "head" ? sse_head() : "")};
    two.plan[1] = {says(streamed_answer())};
    const auto client = two.asks(post(chat(true)));
    two.replica().state->cut = true;
    two.tick(Clock::now());
    EXPECT_TRUE(read_answer(client->got).whole);
    EXPECT_THAT(two.log_lines(), ElementsAre(AllOf(HasSubstr(R"("outcome":"ok")"), HasSubstr(R"("attempt":2)"))));
    EXPECT_EQ(two.retries(Retry::drain), 1u);
    EXPECT_EQ(two.retries(Retry::connect), 0u);
    two.expect_at_rest();
  }
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
  const auto client = asks(sse_head() + chunk(token("a")));
  client->takes_nothing();
  proxy.hears(proxy.upstream(), chunk(token("b")));
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
           {sse_head() + chunk(token(much)) + stream_end, post(chat(true))}};
  for (const auto& [answer, request] : rows) {
    for (const bool leaves : {false, true}) {
      ScriptedProxy one({says(answer)});
      const auto client = one.client();
      client->takes_nothing();
      client->takes(10 * kib);
      one.hears(*client, request);
      EXPECT_TRUE(one.upstream().got.size() > 0 && !client->closed());
      if (leaves) {
        one.breaks(*client);
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

// A replica gives no token: in time, or to anybody. What its client has seen nothing of goes elsewhere.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proxy/exchange/answer_handler.hpp"
#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

using metrics::series::Retry;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

void gives_nothing(net::Peer&) {}

TEST(FirstTokenTimeOut, LetsAnotherReplicaAnswerAtNoCostToTheBudget) {
  // Engines may send the head before they read the prompt.
  for (const auto& beginning : {std::string(), stream_head, stream_head + chunk_of(": ping\n\n")}) {
    ScriptedProxy proxy(2, [](config::Settings& settings) {
      settings.limits.retry_budget = 0;
      settings.limits.first_token = config::Seconds(5);
    });
    proxy.plan[0] = {says(beginning)};
    proxy.plan[1] = {says(streamed_answer())};
    const auto client = proxy.client(post(chat(true)));
    proxy.run();
    proxy.tick_in(4.9);
    EXPECT_EQ(client->got, "");
    proxy.tick_in(5.1);
    EXPECT_TRUE(read_answer(client->got).whole);
    EXPECT_EQ(proxy.retries(Retry::first_token), 1u);
  }
}

TEST(HungReplica, LosesAtTheNextTickWhatBeganBeforeAndHasShownNothing) {
  for (const auto& beginning : {std::string(), stream_head, stream_head + chunk_of(": ping\n\n")}) {
    ScriptedProxy proxy(2, without_budget());
    proxy.plan[0] = {says(beginning)};
    proxy.plan[1] = {says(streamed_answer())};
    const auto client = proxy.client(post(chat(true)));
    proxy.run();
    proxy.tick_in(0.1);
    EXPECT_EQ(client->got, "");
    proxy.replica(0).state->hung_at = Clock::now();
    proxy.tick_in(0.2);
    EXPECT_TRUE(read_answer(client->got).whole);
    EXPECT_TRUE(proxy.connections[0].front()->closed());
    EXPECT_EQ(proxy.retries(Retry::hung), 1u);
    EXPECT_THAT(proxy.log_lines(), ElementsAre(AllOf(HasSubstr(R"("replica":"gpu1")"), HasSubstr(R"("attempt":2)"))));
    proxy.expect_at_rest();
  }
}

TEST(HungReplica, KeepsWhatHasBegunToAnswerAndWhatBeganLater) {
  ScriptedProxy proxy(2);
  proxy.plan[0] = {says(stream_head + chunk_of(event("a"))), says("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"),
                   gives_nothing};
  proxy.plan[1] = {says(streamed_answer())};
  const auto begun = proxy.client(post(chat(true)));
  proxy.run();
  proxy.client(post(chat(true)));  // It goes to the other replica.
  const auto whole = proxy.client(post(chat(false)));
  proxy.run();
  proxy.replica(0).state->hung_at = Clock::now();
  proxy.client(post(chat(true)));
  const auto later = proxy.client(post(chat(true)));
  proxy.run();
  proxy.tick_in(1);
  EXPECT_EQ(proxy.retries(Retry::hung), 0u);
  EXPECT_EQ(proxy.connections[0].size(), 3u);
  for (const auto& one : proxy.connections[0]) EXPECT_FALSE(one->closed());
  EXPECT_EQ(later->got, "");
}

TEST(HungReplica, LosesAnErrorThatIsBeingKeptToNobody) {
  ScriptedProxy proxy(2);
  proxy.plan[0] = {says("HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\n{")};
  proxy.plan[1] = {says(streamed_answer())};
  const auto client = proxy.client(post(chat(true)));
  proxy.run();
  proxy.replica(0).state->hung_at = Clock::now();
  proxy.tick_in(0.1);
  EXPECT_EQ(proxy.retries(Retry::hung), 0u);
  proxy.connections[0].front()->says("}");
  proxy.run();
  EXPECT_EQ(proxy.retries(Retry::status), 1u);
}

}  // namespace
}  // namespace weir::proxy::serve

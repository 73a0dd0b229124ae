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

void gives_nothing(net::Peer&) {}

TEST(Standstill, LosesARequestThatHasShownNothingInTimeOrOfAReplicaThatHangsToAnotherAtNoCost) {
  // Engines may send the head before they read the prompt.
  for (const auto& beginning : {std::string(), sse_head(), sse_head() + chunk(": ping\n\n")})
    for (const auto reason : {Retry::first_token, Retry::hung, Retry::drain}) {
      ScriptedProxy proxy(2, [](config::Settings& settings) {
        settings.limits.retry_budget = 0;
        settings.limits.first_token = config::Seconds(5);
      });
      proxy.plan[0] = {says(beginning)};
      proxy.plan[1] = {says(streamed_answer())};
      const auto client = proxy.asks(post(chat(true)));
      proxy.tick_in(4.9);
      EXPECT_EQ(client->got, "");
      if (reason == Retry::hung) proxy.replica(0).state->leaves.hung_at = Clock::now();
      if (reason == Retry::drain) proxy.replica(0).state->leaves.asleep_at = Clock::now();  // Its engine sleeps.
      proxy.tick_in(reason == Retry::first_token ? 5.1 : 0.2);
      EXPECT_TRUE(read_answer(client->got).whole);
      EXPECT_TRUE(proxy.upstream().closed());
      EXPECT_EQ(proxy.retries(reason), 1u);
      EXPECT_THAT(proxy.log_lines(), ElementsAre(AllOf(HasSubstr(R"("replica":"gpu1")"), HasSubstr(R"("attempt":2)"))));
      proxy.expect_at_rest();
    }
}

TEST(HungReplica, KeepsWhatHasBegunToAnswerAndWhatBeganLater) {
  ScriptedProxy proxy(2);
  proxy.plan[0] = {says(sse_head() + chunk(token("a"))), says("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"),
                   gives_nothing};
  proxy.plan[1] = {says(streamed_answer())};
  const auto begun = proxy.asks(post(chat(true)));
  proxy.client(post(chat(true)));  // It goes to the other replica.
  const auto whole = proxy.asks(post(chat(false)));
  proxy.replica(0).state->leaves.hung_at = Clock::now();
  proxy.client(post(chat(true)));
  const auto later = proxy.asks(post(chat(true)));
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
  const auto client = proxy.asks(post(chat(true)));
  proxy.replica(0).state->leaves.hung_at = Clock::now();
  proxy.tick_in(0.1);
  EXPECT_EQ(proxy.retries(Retry::hung), 0u);
  proxy.hears(proxy.upstream(), "}");
  EXPECT_EQ(proxy.retries(Retry::status), 1u);
}

}  // namespace
}  // namespace weir::proxy::serve

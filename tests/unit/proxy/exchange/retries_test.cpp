// Requests that go out again over real loops: what is sent, counted, logged and told. tests/unit/balancer/story has the
// tables of who is asked, and at whose expense.

#include "proxy/exchange/exchange.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/proxy/serve/scripted_proxy.hpp"

namespace weir::proxy::serve {
namespace {

using metrics::series::Retry;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

void breaks(net::Peer& replica) { replica.breaks(); }
void ends(net::Peer& replica) { replica.ends(); }

TEST(NoAddress, EndsARequestForWhichNoOtherReplicaIsLeft) {
  ScriptedProxy proxy(2, without_budget());
  proxy.replica(0).state->address.set(std::nullopt);
  proxy.snapshot->pools.front()->balancer->health().report(proxy.replica(1).key, balancer::Sign::refused, Clock::now());
  const auto client = proxy.asks(post(chat(true)));
  EXPECT_THAT(client->got, StartsWith("HTTP/1.1 502 "));
  EXPECT_LE(proxy.retries(Retry::connect), 2u);
  proxy.expect_at_rest();
}

TEST(Moved, TheOldReplicaLosesItsRequestToTheNewOneWhetherItBreaksOffOrHangs) {
  for (const auto reason : {Retry::reset, Retry::hung}) {
    ScriptedProxy proxy;
    proxy.plan[1] = {says(streamed_answer())};
    const auto client = proxy.asks(post(chat(true)));
    auto settings = proxy.snapshot->settings;
    settings.pools[0].replicas[0].url.port = 2;
    settings.pools[0].replicas[0].url.authority = "127.0.0.1:2";
    proxy.fleet.adopt(settings);
    if (reason == Retry::reset) proxy.breaks(proxy.upstream());
    if (reason == Retry::hung) proxy.replica(0).state->leaves.hung_at = Clock::now();
    proxy.tick_in(0.1);
    EXPECT_TRUE(read_answer(client->got).whole);
    EXPECT_THAT(asked(proxy), ElementsAre(1, 1, 0, 0));
    EXPECT_EQ(proxy.retries(reason), 1u);
    EXPECT_THAT(proxy.log_lines(), ElementsAre(HasSubstr(R"("attempt":2)")));
  }
}

TEST(FailedTwice, ARequestTellsLibrariesNotToSendItAgainAndIsKnownWhereItCostReplicas) {
  constexpr const char* no_retry = "\r\nx-should-retry: false\r\n";
  ScriptedProxy errors(3);
  errors.plan.fill({says(whole_answer("500 Broken", "{}"))});
  const auto failed = errors.asks(post(chat(true)));
  EXPECT_THAT(failed->got, AllOf(StartsWith("HTTP/1.1 500 "), HasSubstr(no_retry)));
  EXPECT_TRUE(read_answer(failed->got).whole);
  EXPECT_EQ(std::ranges::count(asked(errors), 1u), 2) << "two of three";

  ScriptedProxy full_first(3);
  full_first.plan.fill({breaks});
  full_first.plan[0] = {says(whole_answer("429 Full", "{}"))};
  const auto behind_full = full_first.asks(post(chat(true)));
  EXPECT_THAT(behind_full->got, AllOf(StartsWith("HTTP/1.1 429 "), HasSubstr(no_retry))) << "two were lost";

  ScriptedProxy lost(4);
  lost.plan.fill({breaks});
  const auto poison = lost.asks(post(chat(true)));
  EXPECT_THAT(poison->got, AllOf(StartsWith("HTTP/1.1 502 "), HasSubstr(no_retry), HasSubstr("replica_lost")));
  const auto before = asked(lost);
  const auto again = lost.asks(post(chat(true)));
  EXPECT_THAT(again->got, AllOf(StartsWith("HTTP/1.1 502 "), HasSubstr(no_retry), HasSubstr("within the last minute")));
  EXPECT_EQ(asked(lost), before) << "no replica has it";
  lost.expect_at_rest();

  ScriptedProxy says_itself(2);
  says_itself.plan.fill({says(whole_answer("500 Broken", "{}", "X-Should-Retry: true\r\n"))});
  EXPECT_THAT(says_itself.asks(post(chat(true)))->got, Not(HasSubstr(no_retry)));
}

TEST(Lost, WithTheOnlyReplicaARequestWaitsAndIsSentAgainIfNothingHasReachedItsClient) {
  for (const auto how : {breaks, ends}) {
    ScriptedProxy proxy({how, says(streamed_answer())}, [](config::Settings& settings) {
      settings.pools.front().queue.requests = 256;
      settings.limits.retry_budget = 0;
    });
    auto& books = *proxy.snapshot->pools.front()->balancer;
    const auto client = proxy.asks(post(chat(true)));
    EXPECT_EQ(client->got, "");
    EXPECT_EQ(books.figures().queue(Clock::now()).waiting, 1u);
    EXPECT_EQ(proxy.retries(Retry::reset), 0u) << "it has not been sent again yet";
    static_cast<void>(books.health().take_changes(Clock::now() + std::chrono::milliseconds(1100)));
    proxy.run();
    EXPECT_TRUE(read_answer(client->got).whole);
    EXPECT_EQ(proxy.retries(Retry::reset), 1u);
    EXPECT_THAT(proxy.log_lines(), ElementsAre(AllOf(HasSubstr(R"("outcome":"ok")"), HasSubstr(R"("attempt":2)"))));
    proxy.expect_at_rest();
  }
}

TEST(Suspect, IsARequestThatTwoReplicasBrokeOffWith) {
  for (const auto how : {breaks, ends}) {
    ScriptedProxy proxy(4);
    proxy.plan.fill({how});
    Said said;
    const auto client = proxy.asks(post(chat(true)));
    EXPECT_THAT(said.take(), HasSubstr("may end replicas: for the second time one broke off"));
    EXPECT_THAT(client->got,
                AllOf(StartsWith("HTTP/1.1 502 "), HasSubstr("now 'gpu1'"), HasSubstr("for the second time")));
    EXPECT_THAT(asked(proxy), ElementsAre(1, 1, 0, 0));
    EXPECT_THAT(proxy.log_lines(), ElementsAre(AllOf(HasSubstr(R"("suspect":true)"), HasSubstr(R"("attempt":2)"))));
    proxy.expect_at_rest();
  }
}

/// SGLang and TGI accept a stream before they look at the prompt.
TEST(RefusalInBand, ThatNamesTheRequestsOwnFaultIsTheClientsErrorAndGoesNowhereElse) {
  for (const std::string refusal :
       {R"({"error":{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}})",
        R"({"error":{"message":"Input validation error: too long","http_status_code":422}})"}) {
    ScriptedProxy proxy(2);
    const auto answer = sse_head() + chunk("data: " + refusal + "\n\n" + done_event) + last_chunk;
    proxy.plan.fill({says(answer)});
    const auto client = proxy.asks(post(chat(true)));
    EXPECT_THAT(client->got, HasSubstr("too long"));
    EXPECT_TRUE(read_answer(client->got).whole);
    EXPECT_THAT(asked(proxy), ElementsAre(1, 0, 0, 0));
    EXPECT_THAT(proxy.log_lines(),
                ElementsAre(AllOf(HasSubstr(R"("outcome":"client_error")"), HasSubstr(R"("attempt":1)"))));
    proxy.expect_at_rest();
  }
}

TEST(RefusalInBand, ThatAnotherReplicaMayBetterIsAskedAboutAsAPlainOneIs) {
  ScriptedProxy proxy(2);
  proxy.plan[0] = {says(sse_head() + chunk(R"(data: {"error":{"message":"no such model","code":404}})"
                                           "\n\n") +
                        last_chunk)};
  proxy.plan[1] = {says(streamed_answer())};
  EXPECT_TRUE(read_answer(proxy.asks(post(chat(true)))->got).whole);
  EXPECT_EQ(proxy.retries(Retry::in_band_error), 1u);
  proxy.expect_at_rest();
}

/// Else the first replica's next 404 would count as the replica's.
TEST(RefusalInBand, IsNoBetterAnswerThanAnotherReplicasRefusal) {
  ScriptedProxy proxy(2);
  const auto unknown = says(whole_answer("404 Not Found", "{}"));
  const std::string refusal = "data: {\"error\":{\"message\":\"m\",\"code\":400}}\n\n";
  proxy.plan[0] = {unknown, unknown};
  proxy.plan[1] = {says(sse_head() + chunk(refusal + done_event) + last_chunk)};
  proxy.asks(post(chat(true)));
  proxy.snapshot->pools.front()->balancer->health().report(proxy.replica(1).key, balancer::Sign::refused, Clock::now());
  proxy.asks(post(chat(true)));
  EXPECT_THAT(proxy.log_lines(),
              ElementsAre(AllOf(HasSubstr(R"("outcome":"client_error")"), HasSubstr(R"("replica":"gpu1")")),
                          AllOf(HasSubstr(R"("outcome":"client_error")"), HasSubstr(R"("replica":"gpu0")"))));
  proxy.expect_at_rest();
}

/// The chunk with the role is no answer yet.
TEST(Lost, BehindARoleAloneARequestGoesElsewhere) {
  const std::string role = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n";
  const std::string by_close = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + role;
  const struct {
    void (*how)(net::Peer&);
    std::string begins;
  } rows[]{{breaks, sse_head() + chunk(role)}, {ends, sse_head() + chunk(role)}, {breaks, by_close}};
  for (const auto& row : rows) {
    ScriptedProxy proxy(2);
    proxy.plan[0] = {[&row](net::Peer& replica) {
      replica.says(row.begins);
      row.how(replica);
    }};
    proxy.plan[1] = {says(streamed_answer())};
    const auto client = proxy.asks(post(chat(true)));
    EXPECT_THAT(client->got, Not(HasSubstr("role")));
    EXPECT_TRUE(read_answer(client->got).whole);
    EXPECT_EQ(proxy.retries(Retry::reset), 1u);
    proxy.expect_at_rest();
  }
}

/// A refusal may bring text, and a first read may bring more events behind it. The client gets another replica's
/// answer, and only that replica's tokens count.
TEST(RefusalInBand, LeavesNoTokenAndNoFirstTokenInTheSeriesOfItsReplica) {
  const std::string refusals[] = {
      R"(data: {"id":"c","choices":[{"index":0,"delta":{"content":"no"},"finish_reason":"abort"}]})"
      "\n\n",
      "data: {\"error\":{\"message\":\"overloaded\",\"code\":503}}\n\n" + token("a") + token("b"),
  };
  for (const auto& refusal : refusals) {
    ScriptedProxy proxy(2);
    proxy.plan[0] = {says(sse_head() + chunk(refusal + "data: [DONE]\n\n") + "0\r\n\r\n")};
    proxy.plan[1] = {says(streamed_answer())};
    const auto client = proxy.asks(post(chat(true)));
    EXPECT_TRUE(read_answer(client->got).whole);
    EXPECT_EQ(proxy.retries(Retry::in_band_error), 1u);
    EXPECT_EQ(proxy.shard(0).output_tokens.value(), 0u);
    EXPECT_EQ(proxy.shard(0).time_to_first_token.sum() + proxy.shard(0).inter_chunk_latency.sum(), 0u);
    std::uint64_t first_tokens = 0;
    for (std::size_t i = 0; i <= proxy.shard(0).time_to_first_token.bounds().size(); ++i)
      first_tokens += proxy.shard(0).time_to_first_token.bucket(i);
    EXPECT_EQ(first_tokens, 0u);
    EXPECT_EQ(proxy.shard(1).output_tokens.value(), 3u);
    proxy.expect_at_rest();
  }
}

}  // namespace
}  // namespace weir::proxy::serve

// weir keeps an error that another replica may better, asks another one, and gives the client the best of what they
// say. Another replica's answer decides who is to blame for 401, 403 and 404.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

constexpr auto unknown_model = "{\"error\":{\"message\":\"The model does not exist.\"}}";

std::string sse_head_of_length(std::size_t length) {
  return "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: " + std::to_string(length) + "\r\n\r\n";
}

ScriptedReplica::Handler always(std::string bytes) {
  return [bytes = std::move(bytes)](Exchange& exchange) { exchange.send(bytes); };
}

TEST(KeptAnswer, AFailedRetryLeavesTheFirstReplicasAnswerToTheClient) {
  const struct {
    std::string first, body;
    unsigned status;
    std::optional<std::string> retry_after;
  } rows[]{{"404 Not Found", unknown_model, 404, std::nullopt},
           {"429 Too Many Requests", "{\"error\":\"busy\"}", 429, "1"},
           {"503 Service Unavailable", "{}", 503, "7"},
           {"500 Internal Server Error", "oh", 500, std::nullopt}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.first);
    const auto fields = row.retry_after ? "retry-after: " + *row.retry_after + "\r\n" : "";
    ScriptedReplica r0(always(answer(row.first, row.body, "application/json", fields)));
    ScriptedReplica r1([](Exchange& exchange) { exchange.reset(); });
    auto settings = pool_of({&r0, &r1});
    settings.pools[0].more = {{"policy", "\"round_robin\""}, {"models", R"(["m0", "m1", "m2", "m3", "m4", "m5"])"}};
    WeirUnderTest weir(settings);
    for (int i = 0; i < 6; ++i) {
      const auto got = fetch(weir.port(), post(chat, chat_body("Say something.", "m" + std::to_string(i))));
      EXPECT_EQ(got.status, row.status) << "whichever was first";
      EXPECT_EQ(got.body, row.body);
      EXPECT_EQ(got.head.field("x-weir-replica"), "r0");
      EXPECT_EQ(got.head.field("retry-after"), row.retry_after);
    }
    const auto metrics = weir.metrics_after(6);
    EXPECT_EQ(metrics.sum("weir_requests_total"), 6);
    EXPECT_EQ(metrics.sum("weir_requests_total", {{"replica", "r0"}}), 6) << "whose answer it was";
    for (const auto& line : weir.log_lines(6)) {
      EXPECT_EQ(member(line, "status"), std::to_string(row.status));
      EXPECT_EQ(member(line, "replica"), "r0");
      EXPECT_EQ(member(line, "attempt"), "2") << "the one that failed counts";
      EXPECT_EQ(member(line, "bytes_out"), std::to_string(row.body.size()));
    }
  }
}

TEST(KeptAnswer, OfTwoErrorsTheClientGetsTheOneThatTellsItMore) {
  ScriptedReplica r0(always(answer("500 Internal Server Error", "oh")));
  ScriptedReplica r1(always(answer("429 Too Many Requests", "busy", "text/plain", "retry-after: 2\r\n")));
  auto settings = pool_of({&r0, &r1});
  settings.pools[0].more = {{"policy", "\"round_robin\""}};
  WeirUnderTest weir(settings);
  for (int i = 0; i < 4; ++i) {
    const auto got = fetch(weir.port(), post(chat, chat_body()));
    EXPECT_EQ(got.status, 429u);
    EXPECT_EQ(got.body, "busy");
    EXPECT_EQ(got.head.field("retry-after"), "2");
  }
  EXPECT_EQ(weir.metrics_after(4).sum("weir_requests_total", {{"outcome", "replica_refused"}, {"replica", "r1"}}), 4);
}

TEST(KeptAnswer, AKeptAnswerKeepsTheConnectionAndAnHttp10ClientGetsItWholeToo) {
  ScriptedReplica r0(always(answer("429 Too Many Requests", "busy"))), r1(always(answer("500 x", "oh")));
  WeirUnderTest weir(pool_of({&r0, &r1}));
  HttpClient client(weir.port());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.exchange(post(chat, chat_body())).body, "busy");
  auto old = post(chat, chat_body());
  old.replace(old.find("HTTP/1.1"), 8, "HTTP/1.0");
  EXPECT_EQ(fetch(weir.port(), old).body, "busy");
}

TEST(KeptAnswer, AnErrorThatIsTooLargeToKeepIsNoReasonNotToAskAnother) {
  const auto script = vllm_chat(3);
  ScriptedReplica r0(always(answer("500 x", std::string(100'000, 'x'))));
  ScriptedReplica r1([&](Exchange& exchange) { play(exchange, script); });
  auto settings = pool_of({&r0, &r1});
  settings.pools[0].more = {{"policy", "\"round_robin\""}};
  WeirUnderTest weir(settings);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).body, script.body(false));
}

TEST(KeptAnswer, ThatIsShorterThanItsLengthClosesTheConnection) {
  const auto short_of_its_length = [](Exchange& exchange) {
    exchange.send(sse_head_of_length(1000) + std::string(vllm_error) + "data: [DONE]\n\n");
    exchange.close();
  };
  ScriptedReplica r0(short_of_its_length), r1(short_of_its_length);
  WeirUnderTest weir(pool_of({&r0, &r1}));
  HttpClient client(weir.port());
  const auto got = client.exchange(post(chat, chat_body_with_usage()));
  EXPECT_EQ(got.body, std::string(vllm_error) + "data: [DONE]\n\n");
  EXPECT_EQ(got.end, BodyEnd::fin) << "nothing that follows may be read as the rest";
}

TEST(SecondOpinion, AnUnknownModelIsTheClientsErrorAndAskedAboutOnce) {
  ScriptedReplica r0(always(answer("404 Not Found", unknown_model))),
      r1(always(answer("404 Not Found", unknown_model)));
  auto settings = pool_of({&r0, &r1});
  settings.pools[0].more = {{"models", R"(["typo", "another typo"])"}};
  WeirUnderTest weir(settings);

  for (int i = 0; i < 10; ++i) {
    const auto got = fetch(weir.port(), post(chat, chat_body("Say something.", "typo")));
    EXPECT_EQ(got.status, 404u);
    EXPECT_EQ(got.body, unknown_model);
  }
  EXPECT_EQ(r0.requests().size() + r1.requests().size(), 11u) << "one request had a second opinion";
  const auto metrics = weir.metrics_after(10);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "client_error"}}), 10);
  EXPECT_EQ(metrics.sum("weir_retries_total"), 1);
  fetch(weir.port(), post(chat, chat_body("Say something.", "another typo")));
  EXPECT_EQ(r0.requests().size() + r1.requests().size(), 13u) << "of another model nothing is known";
}

TEST(SecondOpinion, BesideAReplicaThatFailsTheModelThatIsUnknownIsTheAnswer) {
  ScriptedReplica r0(always(answer("404 Not Found", unknown_model))), r1(always(answer("500 x", "oh")));
  auto settings = pool_of({&r0, &r1});
  settings.pools[0].more = {{"policy", "\"round_robin\""}};
  WeirUnderTest weir(settings);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).body, unknown_model);
  const auto metrics = weir.metrics_after(10);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "client_error"}, {"replica", "r0"}}), 10);
  EXPECT_LE(metrics.sum("weir_retries_total", {{"replica", "r0"}}), 1) << "asked about once";
}

TEST(SecondOpinion, ALargeErrorThatNobodyBettersReachesTheClientWhole) {
  const std::string large(100'000, 'x');
  ScriptedReplica r0(always(answer("404 Not Found", large))), r1(always(answer("404 Not Found", large)));
  WeirUnderTest weir(pool_of({&r0, &r1}));
  for (int i = 0; i < 6; ++i) {
    const auto got = fetch(weir.port(), post(chat, chat_body()));
    EXPECT_EQ(got.status, 404u);
    EXPECT_EQ(got.body, large);
  }
  const auto metrics = weir.metrics_after(6);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "client_error"}}), 6);
  EXPECT_LE(metrics.sum("weir_retries_total"), 2);
}

TEST(SecondOpinion, AReplicaWithTheWrongKeyRefusesAndAnotherOneAnswers) {
  const auto script = vllm_chat(3);
  ScriptedReplica r0(always(answer("401 Unauthorized", "{}")));
  ScriptedReplica r1([&](Exchange& exchange) { play(exchange, script); });
  auto settings = pool_of({&r0, &r1});
  settings.pools[0].more = {{"policy", "\"round_robin\""}};
  WeirUnderTest weir(settings);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).body, script.body(false));
  EXPECT_EQ(r0.requests().size(), 5u) << "each of its refusals is tried elsewhere";
  EXPECT_EQ(weir.metrics_after(10).sum("weir_requests_total", {{"outcome", "ok"}, {"replica", "r1"}}), 10);
}

TEST(SecondOpinion, WhereTheReplicaIsKnownToBeTheOddOneAndNoRetryIsLeftItIsItsRefusal) {
  const auto script = vllm_chat(3);
  Event hold;
  std::atomic<bool> holding{false};
  ScriptedReplica r0(always(answer("404 Not Found", unknown_model)));
  ScriptedReplica r1([&](Exchange& exchange) {
    if (holding) hold.wait("the test to let go");
    play(exchange, script);
  });
  auto settings = pool_of({&r0, &r1});
  settings.pools[0].more = {{"policy", "\"round_robin\""}};
  WeirUnderTest weir(settings);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 200u);

  holding = true;  // Retries that wait for r1 use the budget up.
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 12; ++i) {
    clients.push_back(std::make_unique<HttpClient>(weir.port()));
    clients.back()->send(post(chat, chat_body()));
  }
  const auto refused = [](const MetricsPage& page) {
    return page.sum("weir_requests_total", {{"outcome", "replica_refused"}, {"replica", "r0"}}) == 3;
  };
  EXPECT_NO_THROW(weir.metrics_when("three refusals", refused));
  hold.set();
}

}  // namespace
}  // namespace weir::integration

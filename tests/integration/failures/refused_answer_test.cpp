// weir keeps an error that another replica may better, asks another one, and gives the client the best of what they
// say. Another replica's answer decides who is to blame for 401, 403 and 404.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

constexpr auto unknown_model = "{\"error\":{\"message\":\"The model does not exist.\"}}";

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

TEST(KeptAnswer, AKeptAnswerKeepsTheConnectionAndAnHttp10ClientGetsItWholeToo) {
  ScriptedReplica r0(always(answer("429 Too Many Requests", "busy"))), r1(always(answer("500 x", "oh")));
  WeirUnderTest weir(pool_of({&r0, &r1}));
  HttpClient client(weir.port());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.exchange(post(chat, chat_body())).body, "busy");
  auto old = post(chat, chat_body());
  old.replace(old.find("HTTP/1.1"), 8, "HTTP/1.0");
  EXPECT_EQ(fetch(weir.port(), old).body, "busy");
}

}  // namespace
}  // namespace weir::integration

// [[slo]] goes from the settings to /metrics: weir counts what a pool's users got, also if a request reached no
// replica.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/integration/peers/event.hpp"
#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

TEST(Objectives, CountServedRejectedAndWrongRequestsAsWhatTheyAre) {
  const auto script = vllm_chat(4);
  Event go_on;
  ScriptedReplica replica([&](Exchange& exchange) {
    exchange.send(sse_head() + chunk(script.events[0]));
    go_on.wait("the test to go on");
    for (std::size_t i = 1; i < script.events.size(); ++i) exchange.send(chunk(script.events[i]));
    exchange.send(chunk(script.marker) + std::string(last_chunk));
  });
  auto settings = pool_of({&replica});
  settings.pools[0].replicas[0].more = {{"max_in_flight", "1"}};
  settings.slos = {{{"name", "\"patient\""}, {"pool", "\"chat\""}, {"ttft_client", "\"1h\""}, {"e2e", "\"3h\""}},
                   {{"name", "\"hasty\""}, {"pool", "\"chat\""}, {"e2e", "\"1ms\""}}};
  WeirUnderTest weir(settings);

  HttpClient client(weir.port());
  client.send(post(chat, chat_body()));
  auto answer = client.response_head();
  EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).status, 429U);
  EXPECT_EQ(fetch(weir.port(), post(chat, chat_body("Hello.", "another"))).status, 404U);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));  // One objective is missed then.
  go_on.set();
  client.rest(answer);

  const auto metrics = weir.metrics_after(3);
  const auto count = [&](std::string_view slo, std::string_view result, std::string_view at) {
    return metrics.sum("weir_slo_requests_total",
                       {{"slo", slo}, {"result", result}, {"pool", "chat"}, {"replica", at}});
  };
  EXPECT_EQ(count("patient", "good", "r0"), 1);
  EXPECT_EQ(count("patient", "bad", "r0"), 0);
  EXPECT_EQ(count("hasty", "good", "r0"), 0);
  EXPECT_EQ(count("hasty", "bad", "r0"), 1);
  for (const auto slo : {"patient", "hasty"}) {
    EXPECT_EQ(count(slo, "good", ""), 0);
    EXPECT_EQ(count(slo, "bad", ""), 1) << "the rejected one; the wrong one is left out";
  }
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "rejected"}, {"pool", "chat"}, {"replica", ""}}), 1);
  EXPECT_EQ(metrics.sum("weir_requests_total", {{"outcome", "bad_request"}, {"pool", ""}}), 1);
  EXPECT_TRUE(metrics.has("weir_client_time_to_first_token_seconds_bucket", {{"le", "3600"}}));
  EXPECT_TRUE(metrics.has("weir_request_duration_seconds_bucket", {{"le", "0.001"}}));

  for (const auto& line : weir.log_lines(3)) {
    EXPECT_EQ(member(line, "pool"), member(line, "status") == "404" ? "null" : "chat");
  }
}

}  // namespace
}  // namespace weir::integration

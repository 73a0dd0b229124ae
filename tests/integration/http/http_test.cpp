// HTTP on the wire, from a client through weir to a replica and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

TEST(Http, AConnectionIsKeptForManyRequestsOfAllKinds) {
  const auto script = vllm_chat(3);
  ScriptedReplica replica([&](Exchange& exchange) {
    if (exchange.request().body.find("\"stream\":true") != std::string::npos) return play(exchange, script);
    exchange.send(answer("200 OK", vllm_whole_chat(exchange.request().body.size())));
  });
  WeirUnderTest weir(pool_of({&replica}));

  HttpClient client(weir.port());
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(client.exchange(post(chat, chat_body())).body, script.body(false));
    EXPECT_EQ(client.exchange(post(chat, whole_chat_body())).body, vllm_whole_chat(whole_chat_body().size()));
    EXPECT_EQ(client.exchange(get("/v1/models"), "GET").status, 200u);
    EXPECT_EQ(client.exchange(get("/nowhere"), "GET").status, 404u);
  }
  EXPECT_EQ(replica.connections(), 1u) << "and so is the one to the replica";
}

TEST(Http, UsageIsNotAskedWhileAReplicaTellsItsCountsUnasked) {
  const std::string with_timings =
      R"(data: {"choices":[{"finish_reason":"stop","index":0,"delta":{"content":"a"}}],"created":1,"id":"c","model":"m",)"
      R"("object":"chat.completion.chunk","timings":{"cache_n":0,"prompt_n":9,"predicted_n":1}})"
      "\n\ndata: [DONE]\n\n";
  std::atomic<bool> is_llamacpp{true};
  ScriptedReplica replica([&](Exchange& exchange) {
    if (!is_llamacpp) return play(exchange, vllm_chat(4));
    exchange.send(sse_head() + chunk(with_timings) + std::string(last_chunk));
  });
  WeirUnderTest weir(pool_of({&replica}));
  std::size_t requests = 0;
  const auto asks = [&] {
    fetch(weir.port(), post(chat, chat_body()));
    weir.log_lines(++requests);  // weir has learned from it by then.
    return asks_for_usage(replica.requests().back());
  };
  EXPECT_TRUE(asks());
  EXPECT_FALSE(asks());
  is_llamacpp = false;
  EXPECT_FALSE(asks());
  EXPECT_TRUE(asks()) << "another engine has taken the replica's place";
}

}  // namespace
}  // namespace weir::integration

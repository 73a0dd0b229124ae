// With measure.inject_continuous_usage weir asks vLLM-like replicas for usage on every chunk and measures by it, and
// the client gets the bytes that it would have got unasked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

using ::testing::HasSubstr;

bool asks_for_usage_on_every_chunk(const ReceivedRequest& request) {
  return request.body.find(R"("continuous_usage_stats":true)") != std::string::npos;
}

/// The stream has four chunks with 3, 1, 2 and 4 tokens (speculative decoding), then the finish with the EOS token: 11
/// tokens.
std::string stream(bool on_every_chunk, bool at_the_end) {
  const auto event = [&](const std::string& delta, const std::string& finish, int tokens) {
    const std::string usage = on_every_chunk
                                  ? R"(,"usage":{"prompt_tokens":9,"total_tokens":)" + std::to_string(9 + tokens) +
                                        R"(,"completion_tokens":)" + std::to_string(tokens) + "}"
                                  : "";
    return R"(data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":)" +
           delta + R"(,"logprobs":null,"finish_reason":)" + finish + "}]" + usage + "}\n\n";
  };
  std::string body = event(R"({"role":"assistant","content":""})", "null", 0);
  body += event(R"({"content":"one two three"})", "null", 3) + event(R"({"content":" four"})", "null", 4);
  body += event(R"({"content":" five six"})", "null", 6) + event(R"({"content":" seven \"usage\":{}"})", "null", 10);
  body += event(R"({"content":""})", "\"stop\"", 11);
  if (at_the_end)
    body +=
        "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],"
        "\"usage\":{\"prompt_tokens\":9,\"total_tokens\":20,\"completion_tokens\":11}}\n\n";
  return body + "data: [DONE]\n\n";
}

void play_with_usage(Exchange& exchange) {
  exchange.send(sse_head() +
                chunk(stream(asks_for_usage_on_every_chunk(exchange.request()), asks_for_usage(exchange.request()))) +
                std::string(last_chunk));
}

WeirSettings asking(const ScriptedReplica& replica) {
  auto settings = pool_of({&replica});
  settings.measure["inject_continuous_usage"] = "true";
  return settings;
}

TEST(UsageOnEveryChunk, TellsTheTokensOfEachEventAndIsNotSeenByTheClient) {
  ScriptedReplica replica(play_with_usage);
  WeirUnderTest weir(asking(replica));

  EXPECT_EQ(fetch(weir.port(), post(chat, chat_body())).body, stream(false, false));
  EXPECT_TRUE(asks_for_usage_on_every_chunk(replica.only_request()));
  const auto metrics = weir.metrics_after(1);
  EXPECT_EQ(metrics.sum("weir_output_tokens_total"), 11);
  EXPECT_EQ(metrics.sum("weir_output_tokens_overcounted_total"), 0);
  EXPECT_EQ(metrics.sum("weir_inter_token_latency_seconds_count"), 8) << "11 less the 3 of the first event";
  EXPECT_EQ(metrics.sum("weir_inter_chunk_latency_seconds_count"), 4) << "the finish brings a token, too";
  EXPECT_EQ(metrics.sum("weir_itl_unknown_requests_total"), 0);
  const auto line = weir.log_lines(1).front();
  EXPECT_EQ(member(line, "k_source"), "wire");
  EXPECT_EQ(member(line, "output_tokens"), "11");
}

TEST(UsageOnEveryChunk, IsNotAskedForWhereTheClientSaysWhatItWants) {
  ScriptedReplica replica(play_with_usage);
  WeirUnderTest weir(asking(replica));

  EXPECT_EQ(fetch(weir.port(), post(chat, chat_body_with_usage())).body, stream(false, true));
  EXPECT_EQ(replica.only_request().body, chat_body_with_usage());
}

}  // namespace
}  // namespace weir::integration

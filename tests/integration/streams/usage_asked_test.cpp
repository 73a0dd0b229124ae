// weir asks for usage that the client did not ask for. The tests look at what the replica gets and what weir measures,
// and check that the client gets what its own request would have brought.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "tests/integration/peers/streams.hpp"
#include "tests/integration/peers/weir_under_test.hpp"
#include "tests/integration/peers/words.hpp"

namespace weir::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string asks(const std::string& members) {
  return R"({"model":"m","messages":[{"role":"user","content":"Hi"}])" + members + R"(,"stream":true})";
}

TEST(UsageAsked, InEveryFormOfOptionsThatDoesNotAskForIt) {
  const auto script = vllm_chat(4);
  ScriptedReplica replica([&](Exchange& exchange) { play(exchange, script); });
  WeirUnderTest weir(pool_of({&replica}));

  struct {
    std::string sent, received;
  } const forms[] = {
      {"null", R"({"include_usage":true})"},
      {"{}", R"({"include_usage":true})"},
      {R"({"include_usage":false})", R"({"include_usage":true})"},
      {R"({"include_usage": null, "x":1})", R"({"include_usage": true, "x":1})"},
      {R"({"x":[{}]})", R"({"include_usage":true,"x":[{}]})"},
  };
  std::size_t requests = 0;
  for (const auto& form : forms) {
    const auto got = fetch(weir.port(), post(chat, asks(",\"stream_options\":" + form.sent)));
    EXPECT_EQ(got.body, script.body(false)) << form.sent;
    const auto lines = weir.log_lines(++requests);
    EXPECT_EQ(member(lines.back(), "output_tokens"), "4") << form.sent;
    EXPECT_EQ(replica.requests().back().body, asks(",\"stream_options\":" + form.received));
  }
}

TEST(UsageAsked, NotOfAClientThatAsksItselfOrSaysWhatNoEngineKnows) {
  const auto script = vllm_chat(4);
  ScriptedReplica replica([&](Exchange& exchange) { play(exchange, script); });
  WeirUnderTest weir(pool_of({&replica}));

  for (const std::string options : {R"({"include_usage":true})", "7", R"({"include_usage":"no"})"}) {
    const std::string body = asks(",\"stream_options\":" + options);
    const bool wanted = options.find("true") != std::string::npos;
    EXPECT_EQ(fetch(weir.port(), post(chat, body)).body, script.body(wanted)) << options;
    EXPECT_EQ(replica.requests().back().body, body);
  }
}

TEST(UsageAsked, OfLiteLlmDoesNotReachTheClient) {
  const auto event = [](const std::string& choice, const std::string& rest = "") {
    return R"(data: {"id":"c","model":"m","object":"chat.completion.chunk","choices":[)" + choice + "]" + rest +
           "}\n\n";
  };
  const std::string start = event(R"({"index":0,"delta":{"content":"Hi","role":"assistant"}})") +
                            event(R"({"finish_reason":"stop","index":0,"delta":{}})");
  const std::string usage = event(R"({"index":0,"delta":{}})", R"(,"usage":{"completion_tokens":2,"prompt_tokens":5})");
  ScriptedReplica replica([&](Exchange& exchange) {
    exchange.send(sse_head() + chunk(start + (asks_for_usage(exchange.request()) ? usage : "") + "data: [DONE]\n\n") +
                  std::string(last_chunk));
  });
  WeirUnderTest weir(pool_of({&replica}));

  EXPECT_EQ(fetch(weir.port(), post(chat, asks(""))).body, start + "data: [DONE]\n\n");
  EXPECT_EQ(member(weir.log_lines(1).front(), "output_tokens"), "2");
  const std::string own = asks(R"(,"stream_options":{"include_usage":true})");
  EXPECT_EQ(fetch(weir.port(), post(chat, own)).body, start + usage + "data: [DONE]\n\n");
}

/// The answer has three tokens. The second is a part of the third's character and brings no event.
std::string llamacpp_stream(bool usage, bool timings_per_token) {
  const std::string tail =
      R"(,"created":1,"id":"c","model":"m","system_fingerprint":"b7010","object":"chat.completion.chunk")";
  const auto timings = [](int tokens) {
    return R"(,"timings":{"cache_n":0,"prompt_n":9,"predicted_n":)" + std::to_string(tokens) + "}";
  };
  const auto event = [&](const std::string& delta, const std::string& finish, const std::string& rest) {
    return R"(data: {"choices":[{"finish_reason":)" + finish + R"(,"index":0,"delta":)" + delta + "}]" + tail + rest +
           "}\n\n";
  };
  std::string body = event(R"({"role":"assistant","content":null})", "null", "");
  body += event(R"({"content":"a"})", "null", timings_per_token ? timings(1) : "");
  body += event(R"({"content":"é"})", "null", timings_per_token ? timings(3) : "");
  body += event("{}", "\"length\"", usage ? "" : timings(3));
  if (usage)
    body += R"(data: {"choices":[])" + tail + R"(,"usage":{"completion_tokens":3,"prompt_tokens":9})" + timings(3) +
            "}\n\n";
  return body + "data: [DONE]\n\n";
}

bool asks_for_timings(const ReceivedRequest& request) {
  return request.body.find(R"("timings_per_token":true)") != std::string::npos;
}

void play_llamacpp(Exchange& exchange) {
  const auto body = llamacpp_stream(asks_for_usage(exchange.request()), asks_for_timings(exchange.request()));
  exchange.send(sse_head() + chunk(body) + std::string(last_chunk));
}

/// Sends one request and waits for its line in the log. By then weir has learned from it.
boost::json::object asked(const WeirUnderTest& weir, const std::string& body, std::size_t requests,
                          const std::string& wanted) {
  EXPECT_EQ(fetch(weir.port(), post(chat, body)).body, wanted);
  return weir.log_lines(requests).back();
}

TEST(UsageAsked, NoMoreOfAReplicaThatTellsItsCountsUnasked) {
  ScriptedReplica replica(play_llamacpp);
  WeirUnderTest weir(pool_of({&replica}));
  std::string first = llamacpp_stream(true, false);
  first.erase(first.find(R"(data: {"choices":[],)"));

  EXPECT_EQ(member(asked(weir, asks(""), 1, first + "data: [DONE]\n\n"), "output_tokens"), "3");
  EXPECT_TRUE(asks_for_usage(replica.requests().back()));
  for (std::size_t n = 2; n < 4; ++n) {
    EXPECT_EQ(member(asked(weir, asks(""), n, llamacpp_stream(false, false)), "output_tokens"), "3");
    EXPECT_EQ(replica.requests().back().body, asks("")) << "its clients keep their timings";
  }
  const std::string own = asks(R"(,"stream_options":{"include_usage":true})");
  EXPECT_EQ(member(asked(weir, own, 4, llamacpp_stream(true, false)), "output_tokens"), "3");
}

TEST(UsageAsked, AgainWhereAnotherEngineHasTakenTheReplicasPlace) {
  std::atomic<bool> llamacpp{true};
  const auto script = vllm_chat(4);
  ScriptedReplica replica([&](Exchange& exchange) { llamacpp ? play_llamacpp(exchange) : play(exchange, script); });
  WeirUnderTest weir(pool_of({&replica}));

  fetch(weir.port(), post(chat, asks("")));
  weir.log_lines(1);
  llamacpp = false;
  EXPECT_EQ(member(asked(weir, asks(""), 2, script.body(false)), "tokens_source"), "counted");
  EXPECT_EQ(member(asked(weir, asks(""), 3, script.body(false)), "output_tokens"), "4");
}

TEST(UsageAsked, OnEveryTokenOfLlamaCppByItsTimings) {
  ScriptedReplica replica(play_llamacpp);
  auto settings = pool_of({&replica});
  settings.measure["inject_continuous_usage"] = "true";
  WeirUnderTest weir(settings);

  fetch(weir.port(), post(chat, asks("")));
  weir.log_lines(1);
  const auto line = asked(weir, asks(""), 2, llamacpp_stream(false, false));
  EXPECT_THAT(replica.requests().back().body, HasSubstr(R"({"timings_per_token":true,)"));
  EXPECT_THAT(replica.requests().back().body, Not(HasSubstr("stream_options")));
  EXPECT_EQ(member(line, "k_source"), "wire");
  EXPECT_EQ(member(line, "output_tokens"), "3");
  // A client that asks for timings, or for usage, gets them.
  asked(weir, asks(R"(,"timings_per_token":true)"), 3, llamacpp_stream(false, true));
  asked(weir, asks(R"(,"stream_options":{"include_usage":true})"), 4, llamacpp_stream(true, false));
}

}  // namespace
}  // namespace weir::integration

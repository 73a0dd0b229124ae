// Answers that are one JSON document.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/metrics/stream_meter_replay.hpp"

namespace weir::metrics::test {
namespace {

struct JsonCase {
  const char* what;
  Api api;
  std::string body;
  int prompt, cached, output;
  const char* finish_reason;
  std::uint32_t token_events;
  std::uint64_t chars;
  bool error = false;

  friend void PrintTo(const JsonCase& one, std::ostream* out) { *out << one.what; }
};

const JsonCase json_cases[] = {
    {"vLLM chat", Api::openai_chat,
     R"({"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant",
     "content":"Hello 日本","reasoning":null,"tool_calls":[]},"logprobs":null,"finish_reason":"stop","stop_reason":null}],
     "usage":{"prompt_tokens":31,"total_tokens":38,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":16}}})",
     31, 16, 7, "stop", 1, 8},
    {"tool calls", Api::openai_chat,
     R"({"choices":[{"message":{"content":null,"tool_calls":[{"function":{"arguments":"{\"content\":1}"}}]},
     "finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":9,"prompt_tokens_details":null}})",
     3, -1, 9, "tool_calls", 1, 0},
    {"two choices", Api::openai_chat,
     R"({"choices":[{"message":{"content":"a"},"finish_reason":"length"},{"message":{"content":"b"},"finish_reason":"stop"}],
     "usage":{"prompt_tokens":3,"completion_tokens":9}})",
     3, -1, 9, "length", 2, 2},
    {"no output", Api::openai_chat, R"({"choices":[{"message":{"content":""},"finish_reason":"stop"}]})", -1, -1, -1,
     "stop", 0, 0},
    {"completions", Api::openai_completions,
     R"({"choices":[{"text":" Paris","finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":2}})", 3,
     -1, 2, "length", 1, 6},
    {"llama.cpp without usage", Api::openai_chat,
     R"({"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"timings":{"cache_n":3,"prompt_n":8,"predicted_n":4}})",
     11, 3, 4, "stop", 1, 1},
    {"TGI", Api::tgi_generate,
     R"({"generated_text":" is a","details":{"finish_reason":"length","generated_tokens":3,"seed":null,"prefill":[],
     "tokens":[{"id":1,"text":" is","logprob":-0.5,"special":false}]}})",
     -1, -1, 3, "length", 1, 5},
    {"TGI without details", Api::tgi_generate, R"({"generated_text":"ab"})", -1, -1, -1, "", 1, 2},
    {"TGI in an array", Api::tgi_generate, R"([{"generated_text":"ab"}])", -1, -1, -1, "", 1, 2},
    {"error", Api::openai_chat, R"({"error":{"message":"m","type":"t"}})", -1, -1, -1, "", 0, 0, true},
    {"error text", Api::tgi_generate, R"({"error":"m","error_type":"t"})", -1, -1, -1, "", 0, 0, true},
    {"flat error", Api::openai_chat, R"({"object":"error","message":"m"})", -1, -1, -1, "", 0, 0, true},
    {"null error", Api::openai_chat, R"({"error":null,"choices":[]})", -1, -1, -1, "", 0, 0},
    {"keys of the same names elsewhere", Api::openai_chat,
     R"({"x":{"usage":{"completion_tokens":5}},"choices":[{"logprobs":{"content":[{"text":"q"}]},"message":{"content":"a",
     "usage":{"completion_tokens":5}}}],"metadata":[{"error":"e"}]})",
     -1, -1, -1, "", 1, 1},
};

class JsonAnswers : public testing::TestWithParam<JsonCase> {};

TEST_P(JsonAnswers, AreReadForTheirNumbers) {
  const JsonCase& one = GetParam();
  const auto number = [](int n) { return n < 0 ? std::nullopt : std::optional(static_cast<std::uint64_t>(n)); };
  const auto replay = replayed(one.body, options_for(one.api, BodyForm::json));
  const Answer& a = replay->answer();
  EXPECT_EQ(a.prompt_tokens, number(one.prompt));
  EXPECT_EQ(a.cached_tokens, number(one.cached));
  EXPECT_EQ(a.output_tokens, number(one.output));
  EXPECT_EQ(a.token_source, one.output < 0 ? TokenSource::none : TokenSource::usage);
  EXPECT_EQ(a.finish_reason, one.finish_reason);
  EXPECT_EQ(a.token_events, one.token_events);
  EXPECT_EQ(a.output_chars, one.chars);
  EXPECT_EQ(a.in_band_error, one.error);
  EXPECT_EQ(replay->meter.refused(), one.error);
  EXPECT_TRUE(replay->meter.complete());
  EXPECT_FALSE(a.unparsed);
  EXPECT_FALSE(a.first_token);
  EXPECT_EQ(count(replay->shard.time_to_first_token), 0U);
  EXPECT_EQ(replay->shard.output_tokens.value(), one.output < 0 ? 0U : static_cast<std::uint64_t>(one.output));
  EXPECT_EQ(a.counted_tokens, replay->shard.output_tokens.value());
  EXPECT_EQ(replay->forwarded, one.body);
}

TEST_P(JsonAnswers, AreTheSameHoweverTheyAreSplit) {
  const std::string_view body = GetParam().body;
  const StreamMeter::Options options = options_for(GetParam().api, BodyForm::json);
  Replay whole(options);
  whole.feed(body, start);
  whole.end();
  for (std::size_t cut = 1; cut < body.size(); ++cut) {
    Replay split(options);
    split.feed(body.substr(0, cut), start);
    split.feed(body.substr(cut), start);
    split.end();
    ASSERT_EQ(words(split), words(whole)) << cut;
  }
}

INSTANTIATE_TEST_SUITE_P(Dialects, JsonAnswers, testing::ValuesIn(json_cases));

TEST(StreamMeterJson, MarksABrokenJsonAnswer) {
  for (const std::string body : {"{\"choices\":[}", "{} {}", "<html>", "{\"choices\":["}) {
    const auto replay = replayed(body, options_for(Api::openai_chat, BodyForm::json));
    EXPECT_TRUE(replay->answer().unparsed) << body;
    EXPECT_EQ(replay->shard.unparsed[static_cast<std::size_t>(Unparsed::broken_json)].value(), 1U) << body;
    EXPECT_EQ(replay->forwarded, body);
  }
}

TEST(StreamMeterJson, SeesAJsonAnswersEndAtOnce) {
  Replay replay(options_for(Api::openai_chat, BodyForm::json));
  EXPECT_FALSE(replay.meter.has_event());
  replay.feed("{\"choices\":[]", start);
  EXPECT_TRUE(replay.meter.has_event());
  EXPECT_FALSE(replay.meter.complete());
  replay.feed("}", start);
  EXPECT_TRUE(replay.meter.complete());
  replay.feed("\n", start);
  EXPECT_TRUE(replay.meter.complete());
}

}  // namespace
}  // namespace weir::metrics::test

// These answers are one JSON document.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/metrics/measure/stream_meter_replay.hpp"

namespace weir::metrics::measure {
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
  wire::EngineFigures engine{};

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
    {"TGI with the prompt's length", Api::tgi_generate,
     R"({"generated_text":"a","details":{"finish_reason":"eos_token","generated_tokens":2,"input_length":6}})", 6, -1,
     2, "eos_token", 1, 1},
    {"reasoning under both its names", Api::openai_chat,
     R"({"choices":[{"message":{"reasoning":"hmm","reasoning_content":"hmm","content":"a"}},
     {"message":{"reasoning_content":"so","content":"b"}}]})",
     -1, -1, -1, "", 2, 7},
    {"content in parts", Api::openai_chat,
     R"({"choices":[{"message":{"content":[{"type":"text","text":"ab"},{"type":"text","text":"c"}]}}]})", -1, -1, -1,
     "", 1, 3},
    {"vLLM request metrics",
     Api::openai_chat,
     R"({"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2},
     "metrics":{"time_to_first_token_ms":85.5,"generation_time_ms":1240.5,"queue_time_ms":12.5,"mean_itl_ms":9.1,
     "tokens_per_second":103.2,"speculative_decoding":{"num_draft_tokens":129,"num_accepted_draft_tokens":10}}})",
     3,
     -1,
     2,
     "stop",
     1,
     1,
     false,
     {.queue = 0.0125,
      .prefill = 0.0855,
      .ttft = 0.098,
      .decode = 1.2405,
      .time_per_token = 0.0091,
      .draft_tokens = 129,
      .draft_accepted_tokens = 10}},
    {"more digits than a double holds",
     Api::openai_chat,
     R"({"choices":[],"timings":{"prompt_ms":85.777777777777777777777777775,"predicted_ms":8.5)" +
         std::string(70, '7') + R"(,"predicted_n":4.00000000000000000000001}})",
     -1,
     -1,
     4,
     "",
     0,
     0,
     false,
     {.prefill = 85.777777777777777777777777775 / 1000}},
    {"llama.cpp chat with drafts",
     Api::openai_chat,
     R"({"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":11,"completion_tokens":4},
     "timings":{"cache_n":3,"prompt_n":8,"prompt_ms":31.25,"predicted_n":4,"predicted_ms":62.5,"draft_n":6,
     "draft_n_accepted":3}})",
     11,
     3,
     4,
     "stop",
     1,
     1,
     false,
     {.prefill = 0.03125, .decode = 0.0625, .draft_tokens = 6, .draft_accepted_tokens = 3}},
    {"llama.cpp /completion",
     Api::llamacpp_completion,
     R"({"index":0,"content":"Hello there!","tokens":[],"id_slot":0,"stop":true,"tokens_predicted":4,"tokens_evaluated":7,
     "generation_settings":{"n_predict":64},"prompt":"<s>Say hello","stop_type":"eos","tokens_cached":10,
     "timings":{"cache_n":2,"prompt_n":5,"prompt_ms":30,"predicted_n":4,"predicted_ms":660}})",
     7,
     2,
     4,
     "eos",
     1,
     12,
     false,
     {.prefill = 0.03, .decode = 0.66}},
    {"llama.cpp /completion, two prompts", Api::llamacpp_completion,
     R"([{"index":0,"content":"a","stop":true,"tokens_predicted":4,"tokens_evaluated":7,"stop_type":"limit"},
     {"index":1,"content":"b","stop":true,"tokens_predicted":3,"tokens_evaluated":9,"stop_type":"eos"}])",
     -1, -1, 7, "limit", 2, 2},
    {"SGLang",
     Api::sglang_generate,
     R"({"text":" Paris","output_ids":[1,2],"meta_info":{"id":"8f","finish_reason":{"type":"stop","matched":2},
     "prompt_tokens":5,"completion_tokens":2,"cached_tokens":1,"e2e_latency":0.5}})",
     5,
     1,
     2,
     "stop",
     1,
     6,
     false,
     {.total = 0.5}},
    {"SGLang on the route that TGI has too", Api::tgi_generate,
     R"({"text":"a","meta_info":{"finish_reason":{"type":"length","length":1},"prompt_tokens":5,"completion_tokens":1}})",
     5, -1, 1, "length", 1, 1},
    {"SGLang, two samples of one prompt", Api::sglang_generate,
     R"([{"text":"ab","meta_info":{"finish_reason":{"type":"length"},"prompt_tokens":5,"completion_tokens":2,
     "cached_tokens":4,"e2e_latency":0.5}},{"text":"c","meta_info":{"finish_reason":{"type":"stop"},"prompt_tokens":5,
     "completion_tokens":3,"cached_tokens":4,"e2e_latency":0.7}}])",
     5, 4, 5, "length", 2, 3},
    {"SGLang, aborted", Api::sglang_generate,
     R"({"text":"","meta_info":{"finish_reason":{"type":"abort","message":"full","status_code":503},"prompt_tokens":5,
     "completion_tokens":0}})",
     5, -1, 0, "abort", 0, 0, true},
    {"SGLang without a tokenizer", Api::sglang_generate,
     R"({"output_ids":[1,2,3],"meta_info":{"finish_reason":{"type":"length"},"prompt_tokens":5,"completion_tokens":3}})",
     5, -1, 3, "length", 1, 0},
    {"no token ids", Api::sglang_generate, R"({"text":"","output_ids":[],"meta_info":{"completion_tokens":0}})", -1, -1,
     0, "", 0, 0},
    {"a gateway's usage under both names", Api::openai_chat,
     R"({"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":100,"completion_tokens":4,
     "prompt_tokens_details":{"cached_tokens":90},"cache_creation_input_tokens":10,"cache_read_input_tokens":90}})",
     100, 90, 4, "", 1, 1},
    {"a gateway's usage with zeros under other names", Api::openai_chat,
     R"({"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":100,"completion_tokens":4,"input_tokens":0,
     "output_tokens":0}})",
     100, -1, 4, "", 1, 1},
    {"a count that stands for none", Api::openai_chat,
     R"({"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":5,"completion_tokens":0}})", 5, -1, -1, "", 1,
     1},
    {"an answer that failed", Api::openai_chat,
     R"({"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"error"}]})", -1, -1, -1, "error", 1, 1, true},
    {"an answer that the engine gave up", Api::openai_chat,
     R"({"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"abort"}],"usage":{"prompt_tokens":5,
     "completion_tokens":1}})",
     5, -1, 1, "abort", 1, 1, true},
    {"Responses", Api::openai_responses,
     R"({"id":"resp_1","object":"response","status":"completed","error":null,"incomplete_details":null,"output":[
     {"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"content":[{"type":"reasoning_text","text":"ok"}]},
     {"type":"message","status":"completed","content":[{"type":"output_text","text":"Hi!","annotations":[]}]},
     {"type":"function_call","arguments":"{\"a\":1}","name":"f"}],
     "usage":{"input_tokens":37,"input_tokens_details":{"cached_tokens":8},"output_tokens":9,
     "output_tokens_details":{"reasoning_tokens":4},"total_tokens":46}})",
     37, 8, 9, "completed", 1, 7},
    {"Responses, incomplete", Api::openai_responses,
     R"({"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[],"object":"response",
     "usage":{"input_tokens":3,"output_tokens":2}})",
     3, -1, 2, "max_output_tokens", 0, 0},
    {"Responses, failed", Api::openai_responses,
     R"({"object":"response","status":"failed","error":{"code":"server_error","message":"m"},"output":[]})", -1, -1, -1,
     "failed", 0, 0, true},
    {"Anthropic", Api::anthropic_messages,
     R"({"id":"msg_1","type":"message","role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"x"},
     {"type":"text","text":"Hi"},{"type":"tool_use","id":"t","name":"f","input":{"text":"no"}}],"stop_reason":"tool_use",
     "usage":{"input_tokens":25,"cache_creation_input_tokens":10,"cache_read_input_tokens":100,"output_tokens":15}})",
     135, 100, 15, "tool_use", 1, 4},
    {"Anthropic, error", Api::anthropic_messages,
     R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})", -1, -1, -1, "", 0, 0, true},
    {"Kobold", Api::kobold_generate, R"({"results":[{"text":"caf\u00e9"}]})", -1, -1, -1, "", 1, 4},
    {"Ollama generate",
     Api::ollama_generate,
     R"({"model":"m","created_at":"t","response":"The sky","done":true,"done_reason":"stop","context":[1,2],
     "total_duration":4500000000,"load_duration":1,"prompt_eval_count":26,"prompt_eval_duration":250000000,"eval_count":3,
     "eval_duration":500000000})",
     26,
     -1,
     3,
     "stop",
     1,
     7,
     false,
     {.prefill = 0.25, .decode = 0.5, .total = 4.5}},
    {"Ollama chat", Api::ollama_chat,
     R"({"message":{"role":"assistant","content":"a","thinking":"hm","tool_calls":[{"function":{"arguments":{"x":"y"}}}]},
     "done":true,"done_reason":"stop","eval_count":9})",
     -1, -1, 9, "stop", 1, 3},
    {"Ollama, error", Api::ollama_chat, R"({"error":"model not found"})", -1, -1, -1, "", 0, 0, true},
    {"numbers beyond belief", Api::ollama_chat,
     R"({"message":{"content":"a"},"eval_count":1e300,"prompt_eval_count":-1,"total_duration":-5,"eval_duration":1e300})",
     -1, -1, -1, "", 1, 1},
    {"error", Api::openai_chat, R"({"error":{"message":"m","type":"t"}})", -1, -1, -1, "", 0, 0, true},
    {"error text", Api::tgi_generate, R"({"error":"m","error_type":"t"})", -1, -1, -1, "", 0, 0, true},
    {"flat error", Api::openai_chat, R"({"object":"error","message":"m"})", -1, -1, -1, "", 0, 0, true},
    {"null error", Api::openai_chat, R"({"error":null,"choices":[]})", -1, -1, -1, "", 0, 0},
    {"empty error", Api::openai_chat, R"({"error":"","choices":[]})", -1, -1, -1, "", 0, 0},
    {"a refusal", Api::openai_chat,
     R"({"choices":[{"message":{"content":null,"refusal":"I cannot."},"finish_reason":"stop"}],
     "usage":{"prompt_tokens":3,"completion_tokens":4}})",
     3, -1, 4, "stop", 1, 9},
    {"reasoning in a list", Api::openai_chat,
     R"({"choices":[{"message":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},
     {"type":"text","text":"a"}]}}]})",
     -1, -1, -1, "", 1, 3},
    {"half a pair of surrogates", Api::openai_chat,
     R"({"choices":[{"message":{"content":"a\ud83d"},"finish_reason":"length"}],
     "usage":{"prompt_tokens":3,"completion_tokens":4}})",
     3, -1, 4, "length", 1, 2},
    {"embeddings", Api::openai_embeddings,
     R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,-0.25]}],"model":"m",
     "usage":{"prompt_tokens":4,"total_tokens":4,"completion_tokens":0,"prompt_tokens_details":null}})",
     4, -1, -1, "", 0, 0},
    {"rerank that tells a total", Api::rerank,
     R"({"id":"r","model":"m","usage":{"total_tokens":56},"results":[{"index":0,"document":{"text":"a"},
     "relevance_score":0.9}]})",
     56, -1, -1, "", 0, 0},
    {"a score", Api::score,
     R"({"object":"list","data":[{"index":0,"object":"score","score":1}],"usage":{"prompt_tokens":17,"total_tokens":17}})",
     17, -1, -1, "", 0, 0},
    {"TEI's rerank, which tells nothing", Api::rerank, R"([{"index":0,"text":"a","score":0.9}])", -1, -1, -1, "", 0, 0},
    {"a chat's total is not its prompt", Api::openai_chat,
     R"({"choices":[{"message":{"content":"a"}}],"usage":{"total_tokens":9}})", -1, -1, -1, "", 1, 1},
    {"embeddings that failed", Api::openai_embeddings, R"({"error":{"message":"m"}})", -1, -1, -1, "", 0, 0, true},
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
  const record::Answer& a = replay->answer();
  EXPECT_EQ(a.prompt_tokens, number(one.prompt));
  EXPECT_EQ(a.cached_tokens, number(one.cached));
  EXPECT_EQ(a.output_tokens, number(one.output));
  EXPECT_EQ(a.token_source, one.output < 0 ? TokenSource::none : TokenSource::usage);
  EXPECT_EQ(a.finish_reason, one.finish_reason);
  EXPECT_EQ(a.token_events, one.token_events);
  EXPECT_EQ(a.output_chars, one.chars);
  EXPECT_EQ(a.in_band_error, one.error);
  EXPECT_EQ(words(*a.engine), words(one.engine));
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

TEST(StreamMeterJson, OfAListOfPromptsDoesNotPassOnesPromptForAll) {
  const std::string one = R"({"text":"a","meta_info":{"prompt_tokens":5,"cached_tokens":2,"completion_tokens":3}})";
  StreamMeter::Options options = options_for(Api::sglang_generate, BodyForm::json);
  options.choices = options.prompts = 2;
  const auto replay = replayed("[" + one + "," + one + "]", options);
  EXPECT_EQ(replay->answer().prompt_tokens, std::nullopt);
  EXPECT_EQ(replay->answer().cached_tokens, std::nullopt);
  EXPECT_EQ(replay->answer().output_tokens, 6U);
  options.api = Api::openai_completions;
  const auto summed = replayed(R"({"choices":[{"text":"a"},{"text":"b"}],"usage":{"prompt_tokens":10}})", options);
  EXPECT_EQ(summed->answer().prompt_tokens, 10U);
}

TEST(StreamMeterJson, DoesNotPassOneChoicesCountForAll) {
  // llama.cpp joins its answers to n = 2 into the first of them, whose counts stay as they were.
  const std::string body = R"({"choices":[{"message":{"content":"a"}},{"message":{"content":"b"}}],
    "usage":{"prompt_tokens":7,"completion_tokens":50},"timings":{"prompt_n":7,"predicted_n":50}})";
  StreamMeter::Options options = options_for(Api::openai_chat, BodyForm::json);
  options.choices = 2;
  const auto two = replayed(body, options);
  EXPECT_EQ(two->answer().output_tokens, std::nullopt);
  EXPECT_EQ(two->answer().token_source, TokenSource::none);
  EXPECT_EQ(two->answer().prompt_tokens, 7U);
  EXPECT_EQ(two->shard.output_tokens.value(), 50U) << "these at least were made";
  options.prompts = 2;
  EXPECT_EQ(replayed(body, options)->answer().prompt_tokens, std::nullopt);
  options.choices = options.prompts = 1;
  EXPECT_EQ(replayed(body, options)->answer().output_tokens, 50U);
}

TEST(StreamMeterJson, MarksABrokenJsonAnswer) {
  for (const std::string body : {"{\"choices\":[}", "{} {}", "<html>", "{\"choices\":["}) {
    const auto replay = replayed(body, options_for(Api::openai_chat, BodyForm::json));
    EXPECT_TRUE(replay->answer().unparsed) << body;
    EXPECT_EQ(replay->shard.unparsed.value(series::Unparsed::broken_json), 1U) << body;
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

TEST(StreamMeterJson, OfABrokenDocumentNothingIsSaidHoweverItIsCut) {
  const std::string body =
      "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"a\"}}],\"error\":{},\"usage\":{\"completion_tokens\":3},"
      "\"\xc2\xa7" +
      std::string(100, '\\') + "\xa3\":1";
  for (std::size_t cut = 0; cut <= body.size(); ++cut) {
    Replay replay(options_for(Api::openai_chat, BodyForm::json));
    replay.feed(std::string_view(body).substr(0, cut), start);
    replay.feed(std::string_view(body).substr(cut), start);
    EXPECT_FALSE(replay.meter.refused());
    replay.end();
    ASSERT_EQ(replay.answer().token_events, 0U) << cut;
    ASSERT_FALSE(replay.answer().output_tokens) << cut;
    ASSERT_TRUE(replay.answer().unparsed) << cut;
  }
}

}  // namespace
}  // namespace weir::metrics::measure

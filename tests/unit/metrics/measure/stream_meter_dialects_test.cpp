// StreamMeter reads single events of the dialects beside OpenAI's chat, and what engines report of themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "metrics/wire/engine/head.hpp"
#include "tests/unit/metrics/measure/stream_meter_replay.hpp"

namespace weir::metrics::measure {
namespace {

constexpr auto kobold = Api::kobold_generate;
constexpr auto ollama = Api::ollama_chat;

StreamMeter::Options stream_of(Api api) {
  const bool lines = api == Api::ollama_chat || api == Api::ollama_generate;
  return options_for(api, lines ? BodyForm::lines : BodyForm::sse);
}

/// Returns an event as `api` frames it.
std::string event_of(Api api, const std::string& json) {
  return stream_of(api).form == BodyForm::lines ? json + "\n" : "data: " + json + "\n\n";
}

struct DialectCase {
  const char* what;
  Api api;
  std::string json;
  bool choice, token, output;
  std::uint64_t chars = 0;

  friend void PrintTo(const DialectCase& one, std::ostream* out) { *out << one.what; }
};

const DialectCase dialect_cases[] = {
    {"text", responses, R"({"type":"response.output_text.delta","delta":"Hi"})", true, true, true, 2},
    {"text, type last", responses, R"({"delta":"Hi","type":"response.output_text.delta"})", true, true, true, 2},
    {"empty text", responses, R"({"type":"response.output_text.delta","delta":""})", true, false, false},
    {"reasoning", responses, R"({"type":"response.reasoning_text.delta","delta":"hm"})", true, true, false, 2},
    {"summary", responses, R"({"type":"response.reasoning_summary_text.delta","delta":"hm"})", true, true, false, 2},
    {"refusal", responses, R"({"type":"response.refusal.delta","delta":"no"})", true, true, true, 2},
    {"call", responses, R"({"type":"response.function_call_arguments.delta","delta":"{"})", true, true, true},
    {"done text", responses, R"({"type":"response.output_text.done","text":"Hi"})", false, false, false},
    {"created", responses, R"({"type":"response.created","response":{"status":"in_progress","usage":null}})", false,
     false, false},
    {"completed", responses,
     R"({"type":"response.completed","response":{"status":"completed","usage":{"output_tokens":1}}})", true, false,
     false},
    {"of another type", responses, R"({"type":"keepalive","delta":"a"})", false, false, false},
    {"text", anthropic, R"({"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hi"}})", true,
     true, true, 2},
    {"delta before type", anthropic, R"({"delta":{"text":"Hi"},"type":"content_block_delta"})", true, true, true, 2},
    {"empty text", anthropic, R"({"type":"content_block_delta","delta":{"type":"text_delta","text":""}})", true, false,
     false},
    {"thinking", anthropic, R"({"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"}})", true,
     true, false, 2},
    {"signature", anthropic, R"({"type":"content_block_delta","delta":{"type":"signature_delta","signature":"Eq"}})",
     true, false, false},
    {"call", anthropic, R"({"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":""}})", true,
     true, true},
    {"ping", anthropic, R"({"type":"ping"})", false, false, false},
    {"start", anthropic, R"({"type":"message_start","message":{"usage":{"input_tokens":3,"output_tokens":1}}})", false,
     false, false},
    {"block", anthropic, R"({"type":"content_block_start","content_block":{"type":"text","text":"x"}})", false, false,
     false},
    {"end of an empty message", anthropic,
     R"({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}})", true, false, false},
    {"stop", anthropic, R"({"type":"message_stop"})", false, false, false},
    {"token", sglang, R"({"text":"ab","output_ids":[1],"meta_info":{"finish_reason":null,"completion_tokens":1}})",
     true, true, true, 2},
    {"on TGI's route", tgi, R"({"text":"ab","meta_info":{"finish_reason":null,"completion_tokens":1}})", true, true,
     true, 2},
    {"TGI's token on SGLang's route", sglang, R"({"index":7,"token":{"id":1,"text":"ab","special":false}})", true, true,
     true, 2},
    {"no text yet", sglang, R"({"text":"","output_ids":[1],"meta_info":{"completion_tokens":1}})", true, true, true},
    {"no token", sglang, R"({"text":"","output_ids":[],"meta_info":{"completion_tokens":0}})", true, false, false},
    {"uncounted text", sglang, R"({"text":"ab","meta_info":{"finish_reason":null}})", true, true, true, 2},
    {"uncounted nothing", sglang, R"({"text":"","meta_info":{"finish_reason":null}})", true, false, false},
    {"token", llamacpp, R"({"index":0,"content":"ab","tokens":[9],"stop":false,"tokens_predicted":1})", true, true,
     true, 2},
    {"half a code point", llamacpp, R"({"content":"","tokens":[9],"stop":false,"tokens_predicted":1})", true, true,
     true},
    {"end that brings a token", llamacpp, R"({"content":"","stop":true,"tokens_predicted":1})", true, true, true},
    {"end that brings none", llamacpp, R"({"content":"","stop":true,"tokens_predicted":0})", true, false, false},
    {"prompt progress", llamacpp, R"({"content":"","tokens_predicted":0,"prompt_progress":{"processed":4}})", true,
     false, false},
    {"token", kobold, R"({"token": "caf\u00e9"})", true, true, true, 4},
    {"empty token", kobold, R"({"token": "", "finish_reason": "stop"})", true, false, false},
    {"response", Api::ollama_generate, R"({"response":"ab","done":false})", true, true, true, 2},
    {"thinking response", Api::ollama_generate, R"({"response":"","thinking":"ab","done":false})", true, true, false,
     2},
    {"content", ollama, R"({"message":{"role":"assistant","content":"ab"},"done":false})", true, true, true, 2},
    {"thinking", ollama, R"({"message":{"content":"","thinking":"ab"},"done":false})", true, true, false, 2},
    {"call", ollama, R"({"message":{"content":"","tool_calls":[{"function":{"name":"f"}}]},"done":false})", true, true,
     true},
    {"no calls", ollama, R"({"message":{"content":"","tool_calls":[]},"done":false})", true, false, false},
    {"end of an empty answer", ollama, R"({"message":{"content":""},"done":true,"eval_count":1})", true, false, false},
    {"end with text", ollama, R"({"message":{"content":"ab"},"done":true,"eval_count":1})", true, true, true, 2},
};

class DialectEvents : public testing::TestWithParam<DialectCase> {};

TEST_P(DialectEvents, AreToldFromOthers) {
  const DialectCase& one = GetParam();
  const auto replay = replayed(event_of(one.api, one.json), stream_of(one.api));
  const record::Answer& a = replay->answer();
  EXPECT_EQ(a.events, 1U);
  EXPECT_EQ(a.first_choice.has_value(), one.choice);
  EXPECT_EQ(a.last_choice.has_value(), one.choice);
  EXPECT_EQ(a.first_token.has_value(), one.token);
  EXPECT_EQ(a.first_output.has_value(), one.output);
  EXPECT_EQ(a.token_events, one.token ? 1U : 0U);
  EXPECT_EQ(a.output_chars, one.chars);
  EXPECT_FALSE(a.in_band_error);
  EXPECT_FALSE(a.unparsed);
}

INSTANTIATE_TEST_SUITE_P(Dialects, DialectEvents, testing::ValuesIn(dialect_cases));

/// A dialect with one event that has a text of `chars` letters, and one that is an error.
struct Speaker {
  Api api;
  std::string before, behind;  // They enclose the text.
  std::string error;

  std::string says(const std::string& text) const { return event_of(api, before + text + behind); }
  friend void PrintTo(const Speaker& one, std::ostream* out) { *out << name_of(one.api); }
};

const Speaker speakers[] = {
    {Api::openai_chat, R"({"choices":[{"index":0,"delta":{"content":")", R"("}}]})", R"({"error":{"message":"m"}})"},
    {Api::openai_completions, R"({"choices":[{"index":0,"text":")", R"("}]})", R"({"object":"error","message":"m"})"},
    {responses, R"({"type":"response.output_text.delta","delta":")", R"("})", R"({"type":"error","message":"m"})"},
    {anthropic, R"({"type":"content_block_delta","delta":{"text":")", R"("}})",
     R"({"type":"error","error":{"type":"overloaded_error"}})"},
    {tgi, R"({"token":{"id":1,"text":")", R"("},"generated_text":null})", R"({"error":"overloaded"})"},
    {sglang, R"({"output_ids":[1],"meta_info":{"finish_reason":null},"text":")", R"("})",
     R"({"text":"","meta_info":{"finish_reason":{"type":"abort","message":"m"},"completion_tokens":0}})"},
    {llamacpp, R"({"content":")", R"(","stop":false})",
     R"({"error":{"code":500,"message":"m","type":"server_error"}})"},
    {kobold, R"({"token":")", R"("})", R"({"error":"m"})"},
    {Api::ollama_generate, R"({"response":")", R"(","done":false})", R"({"error":"m"})"},
    {ollama, R"({"message":{"content":")", R"("},"done":false})", R"({"error":"m"})"},
};

class Dialects : public testing::TestWithParam<Speaker> {};

TEST_P(Dialects, SayErrorsInBand) {
  const Speaker& one = GetParam();
  const std::string error = event_of(one.api, one.error);
  const auto refused = replayed(error, stream_of(one.api));
  EXPECT_TRUE(refused->answer().in_band_error);
  EXPECT_TRUE(refused->meter.refused());
  EXPECT_FALSE(refused->answer().first_choice);
  EXPECT_FALSE(refused->answer().unparsed);

  const auto later = replayed(one.says("a") + error, stream_of(one.api));
  EXPECT_TRUE(later->answer().in_band_error);
  EXPECT_FALSE(later->meter.refused());
  EXPECT_EQ(later->answer().token_events, 1U);
}

TEST_P(Dialects, GoOnBehindWhatIsNoJson) {
  const Speaker& one = GetParam();
  for (const std::string broken : {"{\"x\":", "{}x", "hello", "[1]", "{\"x\" 1}"}) {
    const auto replay = replayed(one.says("a") + event_of(one.api, broken) + one.says("ab"), stream_of(one.api));
    EXPECT_TRUE(replay->answer().unparsed) << broken;
    EXPECT_EQ(replay->answer().token_events, 2U) << broken;
    EXPECT_EQ(replay->answer().events, 3U) << broken;
  }
}

TEST_P(Dialects, DoNotBelieveABrokenText) {
  const Speaker& one = GetParam();
  for (const std::string text : {"\xFF", "\\q", "\x01"}) {
    const auto replay = replayed(one.says(text), stream_of(one.api));
    EXPECT_TRUE(replay->answer().unparsed);
    EXPECT_EQ(replay->answer().token_events, 0U);
    EXPECT_EQ(replay->answer().output_chars, 0U);
  }
}

TEST_P(Dialects, SkipAnEventBeyondTheLimitAndReadTheNext) {
  const Speaker& one = GetParam();
  const std::string huge(StreamMeter::carry_limit, 'x');
  const std::string body = one.says("a") + one.says(huge) + one.says("ab");
  for (const std::size_t step : {body.size(), std::size_t{65536}, std::size_t{4099}}) {
    Replay replay(stream_of(one.api));
    for (std::size_t at = 0; at < body.size(); at += step) replay.feed(std::string_view(body).substr(at, step), start);
    replay.end();
    EXPECT_EQ(replay.answer().events, 3U) << step;
    EXPECT_EQ(replay.answer().token_events, 2U) << step;
    EXPECT_TRUE(replay.answer().unparsed) << step;
    EXPECT_EQ(replay.shard.unparsed.value(series::Unparsed::event_too_long), 1U) << step;
    EXPECT_TRUE(replay.forwarded == body) << step;
  }
}

TEST_P(Dialects, SurviveValuesOfOtherKinds) {
  const Api api = GetParam().api;
  for (
      const std::string json :
      {R"({"choices":{},"delta":[],"message":"m","response":[],"usage":3,"text":null,"token":{},"meta_info":[]})",
       R"({"type":7,"content":{},"tokens":{},"stop":"yes","done":1,"timings":[],"metrics":3,"details":"x","index":-1})",
       R"({"type":"content_block_delta","delta":"x"})", R"({"type":"response.output_text.delta","delta":{}})",
       R"({"type":"response.completed","response":null})", R"({"type":"message_delta","delta":null,"usage":null})"}) {
    const auto replay = replayed(event_of(api, json) + GetParam().says("ab"), stream_of(api));
    EXPECT_FALSE(replay->answer().unparsed) << json;
    EXPECT_FALSE(replay->answer().in_band_error) << json;
    EXPECT_EQ(replay->answer().events, 2U) << json;
  }
}

std::string api_name(const testing::TestParamInfo<Speaker>& one) {
  std::string name(name_of(one.param.api));
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Apis, Dialects, testing::ValuesIn(speakers), api_name);

TEST(StreamMeterDialects, TakeTheCountsOfSglangPerEvent) {
  const auto replay = replayed(sample("sglang_generate.sse"), options_for(sglang));
  EXPECT_EQ(replay->answer().first_output_tokens, 1U);
  EXPECT_EQ(replay->answer().counted_tokens, 8U);
  // The gaps are 1 ms each, with 1, 1, 3 and 2 tokens.
  EXPECT_EQ(count(replay->shard.inter_token_latency), 7U);
  EXPECT_EQ(count(replay->shard.inter_chunk_latency), 4U);
}

TEST(StreamMeterDialects, CountNoTokenWhereSglangSendsTheSameTextAgain) {
  const std::string once =
      event_of(sglang, R"({"text":"ab","output_ids":[1,2],"meta_info":{"finish_reason":null,"completion_tokens":2}})");
  const auto replay = replayed(once + once + once, options_for(sglang));
  EXPECT_EQ(replay->answer().token_events, 1U);
  EXPECT_EQ(replay->answer().output_chars, 2U);
}

TEST(StreamMeterDialects, KnowAWholeTextWhoseStopTokenWasTakenOffTheList) {
  const auto says = [](const std::string& text, const std::string& ids, int n) {
    return event_of(sglang, R"({"text":")" + text + R"(","output_ids":[)" + ids +
                                R"(],"meta_info":{"finish_reason":null,"completion_tokens":)" + std::to_string(n) +
                                "}}");
  };
  const auto whole = replayed(says("ab", "1", 1) + says("abc", "1,2", 2) + says("abc", "1,2", 3), options_for(sglang));
  EXPECT_EQ(whole->answer().output_chars, 3U);
  const auto only_new = replayed(says("ab", "1,2", 2) + says("", "", 2) + says("c", "3", 3), options_for(sglang));
  EXPECT_EQ(only_new->answer().output_chars, 3U);
}

TEST(StreamMeterDialects, DoNotTakeBackCharactersThatAStopWordCutOff) {
  const auto says = [](const std::string& text, int n) {
    return event_of(sglang, R"({"text":")" + text + R"(","meta_info":{"finish_reason":null,"completion_tokens":)" +
                                std::to_string(n) + "}}");
  };
  EXPECT_EQ(replayed(says("one", 1) + says("one stop", 2) + says("one", 3), options_for(sglang))->answer().output_chars,
            8U);
}

TEST(StreamMeterDialects, DoNotTakeAnthropicsFirstCountForOne) {
  Replay replay(options_for(anthropic));
  const std::string body = sample("anthropic_messages.sse");
  feed_by_event(replay, body.substr(0, body.find("event: message_delta")));
  // The placeholder of message_start is no count, so an answer that breaks off here has none.
  EXPECT_FALSE(replay.answer().output_tokens);
  EXPECT_FALSE(replay.answer().first_output_tokens);
  EXPECT_EQ(replay.answer().prompt_tokens, 125U);
  EXPECT_EQ(replay.answer().token_source, TokenSource::none);
}

TEST(StreamMeterDialects, KeepTheLastOfSeveralAnthropicCounts) {
  const auto counts = [](int n) {
    return event_of(anthropic, R"({"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":)" +
                                   std::to_string(n) + "}}");
  };
  const auto replay = replayed(counts(3) + counts(9), options_for(anthropic));
  EXPECT_EQ(replay->answer().output_tokens, 9U);
  EXPECT_EQ(replay->answer().token_source, TokenSource::usage);
}

TEST(StreamMeterDialects, CountSpeculativeTokensOfTgiThatCameInOneRead) {
  const auto token = [](const std::string& end) {
    return R"(data:{"token":{"id":5,"text":"a","special":false},"generated_text":)" + end + "}\n\n";
  };
  Replay replay(options_for(tgi));
  replay.feed(token("null"), ms(0));
  const auto read = replay.feed(token("null") + token("null") + token("null"), ms(30));
  EXPECT_EQ(read.tokens, 3U);
  replay.feed(token("\"aaaaa\""), ms(40));
  replay.end();
  EXPECT_EQ(replay.answer().output_tokens, 5U);
  EXPECT_EQ(replay.answer().tokens_per_event, TokensPerEvent::wire);
  EXPECT_EQ(count(replay.shard.inter_token_latency), 4U);
  EXPECT_EQ(replay.shard.inter_token_latency.sum(), 40'000'000U);
}

TEST(StreamMeterDialects, TakeAnAnswerInOneLineForItsTokensAtOnce) {
  const auto replay = replayed(R"({"response":"The sky","done":true,"done_reason":"stop","eval_count":7})"
                               "\n",
                               stream_of(Api::ollama_generate));
  EXPECT_EQ(replay->answer().output_tokens, 7U);
  EXPECT_EQ(replay->answer().first_output_tokens, 7U);
  EXPECT_EQ(replay->answer().counted_tokens, 7U);
  EXPECT_TRUE(replay->meter.complete());
}

TEST(StreamMeterDialects, TellHowAnAnswerWasComplete) {
  struct {
    const char* what;
    Api api;
    std::string body;
    bool whole, framed;
    Completeness wanted;
  } const cases[] = {
      {"Kobold, whole", kobold, event_of(kobold, R"({"token":"a"})"), true, true, Completeness::framing},
      {"Kobold, close", kobold, event_of(kobold, R"({"token":"a"})"), true, false, Completeness::eof},
      {"Kobold, broken", kobold, event_of(kobold, R"({"token":"a"})"), false, true, Completeness::none},
      {"Ollama, last line without its end", ollama, R"({"message":{"content":"a"},"done":true})", true, true,
       Completeness::marker},
      {"Ollama, last line cut", ollama, R"({"message":{"content":"a"},"done":tru)", true, true, Completeness::none},
      {"Ollama, no last line", ollama, event_of(ollama, R"({"message":{"content":"a"},"done":false})"), true, true,
       Completeness::none},
      {"SGLang on TGI's route", tgi,
       event_of(sglang, R"({"text":"a","meta_info":{"finish_reason":{"type":"stop"},"completion_tokens":1}})") + done,
       true, true, Completeness::finish},
      {"Anthropic without message_stop", anthropic,
       event_of(anthropic, R"({"type":"message_delta","delta":{"stop_reason":"end_turn"}})"), true, true,
       Completeness::finish},
      {"Anthropic cut behind its text", anthropic,
       event_of(anthropic, R"({"type":"content_block_delta","delta":{"text":"a"}})"), true, true, Completeness::none},
      {"Responses cut", responses, event_of(responses, R"({"type":"response.output_text.delta","delta":"a"})"), true,
       true, Completeness::none},
      {"llama.cpp cut", llamacpp, event_of(llamacpp, R"({"content":"a","stop":false})"), true, true,
       Completeness::none},
  };
  for (const auto& one : cases) {
    const auto replay = replayed(one.body, stream_of(one.api), one.whole, one.framed);
    EXPECT_EQ(name_of(replay->answer().complete), name_of(one.wanted)) << one.what;
    EXPECT_FALSE(replay->answer().in_band_error) << one.what;
  }
}

TEST(StreamMeterDialects, DoNotTakeTheEndOfOnePromptForTheEndOfAll) {
  StreamMeter::Options two = options_for(llamacpp);
  two.choices = 2;
  const std::string first = event_of(llamacpp, R"({"index":0,"content":"a","stop":true,"tokens_predicted":1})");
  EXPECT_FALSE(replayed(first, two)->meter.complete());
  EXPECT_EQ(replayed(first, two)->answer().complete, Completeness::none);
  EXPECT_TRUE(replayed(first, options_for(llamacpp))->meter.complete());
}

TEST(EngineFigures, ComeFromEveryEngineThatGivesThem) {
  struct {
    const char* file;
    Api api;
    wire::EngineFigures wanted;
  } const cases[] = {
      {"vllm_chat.sse", Api::openai_chat, {}},
      {"vllm_chat_metrics.sse",
       Api::openai_chat,
       {.queue = 0.0125,
        .prefill = 0.0855,
        .ttft = 0.098,
        .decode = 1.2405,
        .time_per_token = 0.0091,
        .draft_tokens = 129,
        .draft_accepted_tokens = 10}},
      {"llamacpp_chat.sse", Api::openai_chat, {.prefill = 0.030958, .decode = 0.661064}},
      {"llamacpp_chat_timings.sse",
       Api::openai_chat,
       {.prefill = 0.03125, .decode = 0.0625, .draft_tokens = 4, .draft_accepted_tokens = 2}},
      {"llamacpp_completion.sse", llamacpp, {.prefill = 0.030958, .decode = 0.661064}},
      {"sglang_generate.sse", sglang, {.total = 0.412}},
      {"responses_tool_call.sse",
       responses,
       {.queue = 0.0125, .prefill = 0.0855, .ttft = 0.098, .decode = 1.2405, .time_per_token = 0.0091}},
      {"ollama_generate.ndjson",
       Api::ollama_generate,
       {.prefill = 0.342546, .decode = 0.4535257, .total = 4.883583458}},
      {"anthropic_messages.sse", anthropic, {}},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(words(*replayed(sample(one.file), stream_of(one.api))->answer().engine), words(one.wanted)) << one.file;
  }
}

TEST(EngineFigures, BelieveNoImpossibleTimes) {
  const auto replay = replayed(
      event_of(ollama,
               R"({"message":{},"done":true,"total_duration":-1,"eval_duration":1e300,"prompt_eval_duration":"1"})"),
      stream_of(ollama));
  EXPECT_EQ(replay->answer().engine, wire::EngineFigures{});
}

TEST(EngineFigures, OfTheHeadAreThoseOfTgi) {
  const std::map<std::string_view, std::string_view> head{{"x-compute-type", "1-gpu"},  {"x-total-time", "1250"},
                                                          {"x-validation-time", "1"},   {"x-queue-time", "40"},
                                                          {"x-inference-time", "1209"}, {"x-time-per-token", "12"},
                                                          {"x-prompt-tokens", "550"},   {"x-generated-tokens", "100"}};
  const auto value_of = [](const auto& fields) {
    return [&fields](std::string_view name) {
      const auto at = fields.find(name);
      return at == fields.end() ? std::string_view() : at->second;
    };
  };
  EXPECT_EQ(wire::engine_head(value_of(head)),
            (wire::EngineFigures{
                .queue = 0.04, .total = 1.25, .time_per_token = 0.012, .prompt_tokens = 550, .output_tokens = 100}));

  for (const std::string_view odd : {"", "-1", "1.5", "12ms", " 12", "99999999999999999999"}) {
    const std::map<std::string_view, std::string_view> fields{{"x-queue-time", odd}, {"x-prompt-tokens", odd}};
    EXPECT_EQ(wire::engine_head(value_of(fields)), wire::EngineFigures{}) << odd;
  }
}

TEST(EngineFigures, OfTheHeadStandUntilTheBodySaysMore) {
  StreamMeter::Options options = options_for(tgi, BodyForm::json);
  options.engine = wire::EngineFigures{.queue = 0.04, .total = 1.25, .prompt_tokens = 550, .output_tokens = 100};
  const auto bare = replayed(R"({"generated_text":"ab"})", options);
  EXPECT_EQ(bare->answer().engine, options.engine);
  EXPECT_EQ(bare->answer().prompt_tokens, 550U);
  EXPECT_EQ(bare->answer().output_tokens, 100U);
  EXPECT_EQ(bare->answer().token_source, TokenSource::usage);

  const auto detailed =
      replayed(R"({"generated_text":"ab","details":{"generated_tokens":2,"input_length":3}})", options);
  EXPECT_EQ(detailed->answer().prompt_tokens, 3U);
  EXPECT_EQ(detailed->answer().output_tokens, 2U);

  options.api = Api::openai_chat;
  const auto timed = replayed(R"({"choices":[],"timings":{"prompt_ms":500}})", options);
  EXPECT_EQ(timed->answer().engine->queue, 0.04);
  EXPECT_EQ(timed->answer().engine->prefill, 0.5);
}

}  // namespace
}  // namespace weir::metrics::measure

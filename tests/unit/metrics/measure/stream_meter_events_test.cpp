// Tables over the dialects say which form a body has, what is a token event, and what is an error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/metrics/measure/stream_meter_replay.hpp"

namespace weir::metrics::measure {
namespace {

TEST(BodyForm, IsToldByApiStatusAndType) {
  struct {
    Api api;
    unsigned status;
    std::string_view type;
    bool coded;
    BodyForm form;
  } const cases[] = {
      {Api::openai_chat, 200, "text/event-stream", false, BodyForm::sse},
      {Api::openai_chat, 200, "Text/Event-Stream; charset=utf-8", false, BodyForm::sse},
      {Api::openai_chat, 200, " text/event-stream ;x=y", false, BodyForm::sse},
      {Api::openai_chat, 200, "application/json", false, BodyForm::json},
      {Api::tgi_generate, 200, "application/json;charset=utf-8", false, BodyForm::json},
      {Api::tgi_generate, 201, "application/problem+json", false, BodyForm::json},
      {Api::other, 200, "text/event-stream", false, BodyForm::sse},
      {Api::other, 200, "application/json", false, BodyForm::opaque},
      {Api::openai_embeddings, 200, "application/json", false, BodyForm::json},
      {Api::ollama_chat, 200, "application/x-ndjson", false, BodyForm::lines},
      {Api::ollama_generate, 200, "Application/jsonl; charset=utf-8", false, BodyForm::lines},
      {Api::ollama_chat, 200, "application/json", false, BodyForm::json},
      {Api::ollama_chat, 200, "application/json-seq", false, BodyForm::opaque},
      {Api::ollama_chat, 404, "application/x-ndjson", false, BodyForm::opaque},
      {Api::openai_chat, 200, "text/event-stream", true, BodyForm::opaque},
      {Api::openai_chat, 200, "application/json", true, BodyForm::opaque},
      {Api::openai_chat, 400, "application/json", false, BodyForm::opaque},
      {Api::openai_chat, 500, "text/event-stream", false, BodyForm::opaque},
      {Api::openai_chat, 200, "text/event-streams", false, BodyForm::opaque},
      {Api::openai_chat, 200, "text/plain", false, BodyForm::opaque},
      {Api::openai_chat, 200, "", false, BodyForm::opaque},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(body_form(one.api, one.status, one.type, one.coded), one.form) << one.status << " " << one.type;
  }
}

TEST(BodyForm, IsAStreamWhereOneWasAskedForAndTheTypeSaysNothingBetter) {
  for (const char* type : {"text/plain", "text/html; charset=utf-8", "application/octet-stream", ""}) {
    SCOPED_TRACE(type);
    EXPECT_EQ(body_form(Api::openai_chat, 200, type, false, true), BodyForm::sse);
    EXPECT_EQ(body_form(Api::ollama_chat, 200, type, false, true), BodyForm::lines);
    EXPECT_EQ(body_form(Api::ollama_generate, 200, type, false, true), BodyForm::lines);
    EXPECT_EQ(body_form(Api::other, 200, type, false, true), BodyForm::opaque);
    EXPECT_EQ(body_form(Api::openai_chat, 404, type, false, true), BodyForm::opaque);
    EXPECT_EQ(body_form(Api::openai_chat, 200, type, true, true), BodyForm::opaque);
  }
  EXPECT_EQ(body_form(Api::openai_chat, 200, "application/json", false, true), BodyForm::json);
}

struct EventCase {
  const char* what;
  std::string event;
  bool choice, token, output;
  std::uint64_t chars = 0;
  Api api = Api::openai_chat;

  friend void PrintTo(const EventCase& one, std::ostream* out) { *out << one.what; }
};

const EventCase event_cases[] = {
    {"role", chunk(delta(R"("role":"assistant","content":"")")), true, false, false},
    {"role with null content", chunk(delta(R"("role":"assistant","content":null)")), true, false, false},
    {"empty delta", chunk(delta("")), true, false, false},
    {"content", says("Hi"), true, true, true, 2},
    {"role and content (TGI)", chunk(delta(R"("role":"assistant","content":"Hi")")), true, true, true, 2},
    {"escaped content", says(R"(\"usage\":{})"), true, true, true, 10},
    {"reasoning_content", chunk(delta(R"("reasoning_content":"hm","content":null)")), true, true, false, 2},
    {"reasoning", chunk(delta(R"("reasoning":"hm")")), true, true, false, 2},
    {"reasoning and content", chunk(delta(R"("reasoning":"hm","content":"a")")), true, true, true, 3},
    {"reasoning under both its names", chunk(delta(R"("reasoning":"hm","reasoning_content":"hm")")), true, true, false,
     2},
    {"refusal", chunk(delta(R"("refusal":"no","content":null)")), true, true, true, 2},
    {"null refusal", chunk(delta(R"("refusal":null,"content":"")")), true, false, false},
    {"content in parts", chunk(delta(R"("content":[{"type":"text","text":"ab"},{"type":"text","text":"c"}])")), true,
     true, true, 3},
    {"content in strings", chunk(delta(R"("content":["ab","c"])")), true, true, true, 3},
    {"a refusal among parts", chunk(delta(R"("content":[{"type":"refusal","refusal":"no"}])")), true, true, true, 2},
    {"parts without text",
     chunk(delta(R"("content":[{"type":"text","text":""},{"type":"image","url":"u"},{},7,null])")), true, false, false},
    {"no parts", chunk(delta(R"("content":[])")), true, false, false},
    {"reasoning in parts (Mistral)",
     chunk(delta(R"("content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}])")), true, true, false, 2},
    {"reasoning as a part's string", chunk(delta(R"("content":[{"type":"thinking","thinking":"hm"}])")), true, true,
     false, 2},
    {"reasoning in parts, then text",
     chunk(delta(R"("content":[{"thinking":[{"text":"hm"}]},{"type":"text","text":"a"}])")), true, true, true, 3},
    {"a list of reasoning", chunk(delta(R"("reasoning_content":[{"text":"hm"}])")), true, true, false, 2},
    {"lists too deep to be text", chunk(delta(R"("content":[[[["a"]]]])")), true, false, false},
    {"completions text in parts", chunk(R"({"index":0,"text":["a","b"]})"), true, true, true, 2,
     Api::openai_completions},
    {"every key null (SGLang)",
     chunk(delta(R"("role":null,"content":null,"reasoning_content":null,"tool_calls":null)", "null", 0,
                 R"(,"matched_stop":null)"),
           R"(,"usage":null)"),
     true, false, false},
    {"null keys around content (SGLang)",
     chunk(delta(R"("role":null,"content":"a","reasoning_content":null,"tool_calls":null)"), R"(,"usage":null)"), true,
     true, true, 1},
    {"finish with a stop token's number", chunk(delta("", "\"stop\"", 0, R"(,"matched_stop":151645)")), true, false,
     false},
    {"metrics with the usage (vLLM)", chunk("", usage(9, 4) + R"(,"metrics":{"queue_time_ms":1.5})"), false, false,
     false},
    {"null metrics", chunk(delta(R"("content":"a")"), R"(,"metrics":null)"), true, true, true, 1},
    {"token ids of the prompt", chunk(delta(R"("content":"")"), R"(,"prompt_token_ids":[1,2,3])"), true, false, false},
    {"choices null",
     R"(data: {"choices":null,"object":"chat.completion.chunk"})"
     "\n\n",
     false, false, false},
    {"tool call", chunk(delta(R"("tool_calls":[{"index":0,"function":{"arguments":""}}])")), true, true, true},
    {"tool call (TGI object)", chunk(delta(R"("tool_calls":{"index":0})")), true, true, true},
    {"no tool calls", chunk(delta(R"("tool_calls":[],"content":"")")), true, false, false},
    {"null tool calls", chunk(delta(R"("tool_calls":null)")), true, false, false},
    {"function call", chunk(delta(R"("function_call":{"arguments":"{"})")), true, true, true},
    {"token ids", chunk(delta(R"("content":"")", "null", 0, R"(,"token_ids":[7])")), true, true, false},
    {"empty token ids", chunk(delta(R"("content":"")", "null", 0, R"(,"token_ids":[])")), true, false, false},
    {"null token ids", chunk(delta(R"("content":"")", "null", 0, R"(,"token_ids":null)")), true, false, false},
    {"finish", stop, true, false, false},
    {"token and finish", chunk(delta(R"("content":"x")", "\"length\"")), true, true, true, 1},
    {"a count that rises", chunk(delta(R"("content":"")"), usage(9, 1)), true, true, false},
    {"a count of nought", chunk(delta(R"("content":"")"), usage(9, 0)), true, false, false},
    {"a count that rises (timings)", chunk(delta(""), R"(,"timings":{"predicted_n":1})"), true, true, false},
    {"null usage", chunk(delta(R"("content":"")"), R"(,"usage":null)"), true, false, false},
    {"usage alone", chunk("", usage(9, 4)), false, false, false},
    {"prompt_progress",
     chunk(delta(R"("role":"assistant","content":null)"), R"(,"prompt_progress":{"total":9,"processed":4})"), true,
     false, false},
    {"null prompt_progress", chunk(delta(R"("content":"a")"), R"(,"prompt_progress":null)"), true, true, true, 1},
    {"completions text", chunk(R"({"index":0,"text":"Hi","finish_reason":null})"), true, true, true, 2,
     Api::openai_completions},
    {"empty completions text", chunk(R"({"index":0,"text":"","finish_reason":""})"), true, false, false, 0,
     Api::openai_completions},
    {"escaped key order and blanks",
     "data:  { \"choices\" : [ { \"delta\" : { \"content\" : \"a\" } , \"index\" : 0 } ] } \n\n", true, true, true, 1},
    {"error object", "data: {\"error\": {\"message\": \"x\"}}\n\n", false, false, false},
    {"done", done, false, false, false},
    {"done with blanks", "data:  [DONE] \n\n", false, false, false},
    {"empty data", "data\n\n", false, false, false},
    {"native token", tgi_event(R"({"index":1,"token":{"id":5,"text":" a","special":false},"generated_text":null})"),
     true, true, true, 2, Api::tgi_generate},
    {"native special token", tgi_event(R"({"token":{"id":5,"text":"</s>","special":true},"generated_text":null})"),
     true, true, true, 0, Api::tgi_generate},
    {"native token without text", tgi_event(R"({"token":{"id":5,"text":""},"generated_text":null})"), true, true, true,
     0, Api::tgi_generate},
    {"native error", tgi_event(R"({"error":"overloaded","error_type":"overloaded"})"), false, false, false, 0,
     Api::tgi_generate},
    {"other event", "event: response.output_text.delta\ndata: {\"delta\":\"a\"}\n\n", true, false, false, 0,
     Api::other},
    {"other text", "data: tick\n\n", true, false, false, 0, Api::other},
};

class TokenEvents : public testing::TestWithParam<EventCase> {};

TEST_P(TokenEvents, AreToldFromOthers) {
  const EventCase& one = GetParam();
  const auto replay = replayed(one.event, options_for(one.api));
  const record::Answer& a = replay->answer();
  EXPECT_EQ(a.events, 1U);
  EXPECT_EQ(a.first_choice.has_value(), one.choice);
  EXPECT_EQ(a.last_choice.has_value(), one.choice);
  EXPECT_EQ(a.first_token.has_value(), one.token);
  EXPECT_EQ(a.first_output.has_value(), one.output);
  EXPECT_EQ(a.token_events, one.token ? 1U : 0U);
  EXPECT_EQ(a.output_chars, one.chars);
  EXPECT_FALSE(a.unparsed);
}

INSTANTIATE_TEST_SUITE_P(Dialects, TokenEvents, testing::ValuesIn(event_cases));

TEST(StreamMeter, IgnoresComments) {
  const auto replay = replayed(": ping\n\n:\n\n");
  EXPECT_EQ(replay->answer().events, 0U);
  EXPECT_FALSE(replay->meter.has_event());
}

TEST(StreamMeter, SeesErrorsInBandInEveryShape) {
  const std::pair<Api, std::string> errors[] = {
      {Api::openai_chat, R"({"error": {"message": "m", "type": "t", "code": 500}})"},
      {Api::openai_chat, R"({"error":{"object":"error","message":"m","code":400}})"},
      {Api::openai_chat, R"({"object":"error","message":"m","type":"t","param":null,"code":400})"},
      {Api::openai_chat, R"({"error":"Model is overloaded","error_type":"overloaded"})"},
      {Api::openai_completions, R"({"error":{"message":"m","http_status_code":422}})"},
      {Api::tgi_generate, R"({"error":"Model is overloaded","error_type":"overloaded"})"},
      {Api::other, R"({"error":{"message":"m"}})"},
      {Api::other, R"({"type":"error","error":{"type":"overloaded_error"}})"},
  };
  for (const auto& [api, error] : errors) {
    const auto refused = replayed("data: " + error + "\n\n" + done, options_for(api));
    EXPECT_TRUE(refused->answer().in_band_error) << error;
    EXPECT_TRUE(refused->meter.refused()) << error;
    EXPECT_FALSE(refused->answer().first_choice) << error;

    const auto later = replayed(says("a") + "data: " + error + "\n\n", options_for(Api::openai_chat));
    EXPECT_TRUE(later->answer().in_band_error) << error;
    EXPECT_FALSE(later->meter.refused()) << error;
  }
}

TEST(StreamMeter, TakesAnAnswerThatTheEngineGaveUpForAnErrorAndCountsItsTokens) {
  for (const std::string reason : {"abort", "error"}) {
    const auto given_up = replayed(says("a") + chunk(delta("", '"' + reason + '"')) + chunk("", usage(3, 2)) + done);
    EXPECT_TRUE(given_up->answer().in_band_error);
    EXPECT_FALSE(given_up->meter.refused());
    EXPECT_EQ(given_up->answer().finish_reason, reason);
    EXPECT_EQ(given_up->answer().output_tokens, 2U);
    EXPECT_EQ(given_up->answer().prompt_tokens, 3U);
  }
}

TEST(StreamMeter, TakesAnEmptyErrorForNone) {
  for (const std::string error : {"null", "false", "\"\""}) {
    const auto replay = replayed(chunk(delta(R"("content":"a")"), R"(,"error":)" + error));
    EXPECT_FALSE(replay->answer().in_band_error) << error;
    EXPECT_EQ(replay->answer().token_events, 1U) << error;
  }
}

TEST(StreamMeter, TakesACancelledResponseForItsEnd) {
  const auto replay = replayed(
      R"(data: {"type":"response.cancelled","response":{"status":"cancelled","usage":{"input_tokens":3,"output_tokens":2}}})"
      "\n\n",
      options_for(Api::openai_responses));
  EXPECT_EQ(replay->answer().complete, Completeness::marker);
  EXPECT_EQ(replay->answer().finish_reason, "cancelled");
  EXPECT_EQ(replay->answer().output_tokens, 2U);
}

}  // namespace
}  // namespace weir::metrics::measure

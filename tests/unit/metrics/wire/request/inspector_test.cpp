#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "metrics/wire/request/inspector.hpp"
#include "tests/unit/metrics/wire/request/request_facts.hpp"

namespace weir::metrics::wire {
namespace {

std::string words(const RequestFacts& f) {
  std::ostringstream s;
  s << name_of(f.api) << " model " << f.model << (f.stream ? " stream" : "") << " max "
    << (f.max_tokens ? std::to_string(*f.max_tokens) : "-") << " n " << f.n << (f.greedy ? " greedy" : "")
    << (f.tools ? " tools" : "") << " images " << f.images << " ids "
    << (f.prompt_token_ids ? std::to_string(*f.prompt_token_ids) : "-") << " messages " << f.text.messages << " turn "
    << f.user_messages << " of " << f.conversation << " tool bytes " << f.text.tool_bytes << " chars";
  for (const std::uint64_t n : f.text.code_points) s << " " << n;
  s << (f.usage_requested ? " usage" : "") << (f.stream_options ? " options" : "") << (f.whole_json ? " whole" : "")
    << " at " << (f.first_member_at ? std::to_string(*f.first_member_at) : "-") << (f.empty_object ? " empty" : "")
    << (f.stored_context ? " stored" : "") << (f.token_timings ? " timings" : "");
  return s.str();
}

struct Body {
  const char* what;
  Api api;
  std::string text;

  friend void PrintTo(const Body& body, std::ostream* out) { *out << body.what; }
};

const Body bodies[] = {
    {"chat", chat,
     R"( {"model":"qwen2.5-7b","stream":true,"messages":[{"role":"system","content":"Be brief. Ж"},{"role":"user",
     "content":[{"type":"text","text":"What is \u65e5本 🙂?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]},
     {"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"a\":12}"}}]}],
     "tools":[{"type":"function","function":{"name":"f","parameters":{"max":-1.5e3,"x":[true,false,null]}}}],
     "max_tokens":100,"max_completion_tokens":50,"n":2,"temperature":0,"stream_options":{"include_usage":true}} )"},
    {"completions", completions, R"({"prompt":["ab é","cd"],"max_tokens":16,"n":3,"stream":false,"temperature":0.7})"},
    {"token ids", completions, R"({"prompt":[[1,2,3],[4,5]],"max_tokens":16})"},
    {"TGI", tgi,
     R"({"inputs":"Deep learning","parameters":{"max_new_tokens":20,"do_sample":true,"best_of":2,"details":true}})"},
    {"Responses", responses,
     R"({"model":"m","instructions":"Kurz é","input":[{"role":"user","content":[{"type":"input_text","text":"你好"},
     {"type":"input_image","image_url":"data:image/png;base64,AAAA"},{"type":"input_file","file_data":"QUJD"}]},
     {"type":"function_call","name":"f","arguments":"{\"a\":1}","call_id":"c"},
     {"type":"function_call_output","call_id":"c","output":"12"},{"type":"reasoning","summary":[{"text":"so"}]}],
     "max_output_tokens":9,"tools":[{"type":"function","name":"f"}],"previous_response_id":"r","stream":true})"},
    {"Anthropic", anthropic,
     R"({"model":"m","system":[{"type":"text","text":"Be brief","cache_control":{"type":"ephemeral"}}],"max_tokens":64,
     "messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"AAAA"}},{"type":"text",
     "text":"Жар"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"zzzz"},
     {"type":"tool_use","id":"t","name":"f","input":{"q":"x"}}]},{"role":"user","content":[{"type":"tool_result",
     "tool_use_id":"t","content":[{"type":"text","text":"ok"},{"type":"image","source":{"data":"BB"}}]}]}],
     "tools":[{"name":"f","input_schema":{}}],"temperature":0,"stream":true})"},
    {"SGLang", sglang,
     R"({"text":["ab","cdé"],"sampling_params":{"max_new_tokens":8,"n":2,"temperature":0},"stream":true,"image_data":["AA"]})"},
    {"SGLang token ids", sglang, R"({"input_ids":[[1,2],[3]],"sampling_params":{"max_new_tokens":8}})"},
    {"llama.cpp", llamacpp,
     R"({"prompt":[[1,2,"ab",3],"cd",{"prompt_string":"ef","multimodal_data":["AA"]}],"n_predict":-1,"stream":true,"temperature":-1})"},
    {"Kobold", kobold, R"({"memory":"m","prompt":"abc","max_length":80,"n":2,"temperature":0,"images":["AA","BB"]})"},
    {"Ollama", ollama_generate,
     R"({"model":"m","prompt":"abc","suffix":"d","system":"ef","images":["AA"],"context":[1,2,3],"options":{"num_predict":-2}})"},
    {"Ollama chat", ollama_chat,
     R"({"model":"m","messages":[{"role":"user","content":"abc","images":["AA","BB"]},{"role":"assistant","thinking":"x",
     "content":"","tool_calls":[{"function":{"name":"f","arguments":{"a":"b"}}}]}],"stream":false,
     "options":{"num_predict":7,"temperature":0},"tools":[{"type":"function"}]})"},
    {"other", Api::other, R"({"model":"e5","input":"text"})"},
    {"cut", chat, R"({"model":"m","messages":[{"content":"abc)"},
    {"garbage behind", chat, R"({"model":"m"} x)"},
    {"broken UTF-8", chat, "{\"model\":\"m\",\"messages\":[{\"content\":\"a\xFF\"}]}"},
    {"no object", chat, R"(["model"])"},
    {"no JSON", chat, "--boundary\r\nContent-Disposition: form-data"},
    {"blank", chat, " \r\n\t "},
    {"empty", chat, ""},
    {"empty object", chat, "\n{ }"},
};

class RequestBodies : public testing::TestWithParam<Body> {};

TEST_P(RequestBodies, SayTheSameHoweverTheyAreSplit) {
  const std::string_view body = GetParam().text;
  const Api api = GetParam().api;
  const std::string wanted = words(facts_of(api, body));
  for (std::size_t cut = 0; cut <= body.size(); ++cut) {
    RequestInspector split = inspector_at(path_of(api));
    split.feed(body.substr(0, cut));
    split.feed(body.substr(cut));
    ASSERT_EQ(words(split.finish()), wanted) << cut;
  }
  RequestInspector bytes = inspector_at(path_of(api));
  for (const char& byte : body) bytes.feed({&byte, 1});
  EXPECT_EQ(words(bytes.finish()), wanted);
}

const UniversalKey prompt_key{{7, 8}};

/// Hashing the prompt's beginnings leaves the facts as they are.
TEST_P(RequestBodies, HaveTheSameAnchorsHoweverTheyAreSplit) {
  const std::string_view body = GetParam().text;
  const Api api = GetParam().api;
  const std::string wanted = words(facts_of(api, body));
  std::vector<std::pair<std::uint64_t, std::uint64_t>> whole;
  for (std::size_t cut = 0; cut <= body.size(); ++cut) {
    RequestInspector split(api_of("POST", path_of(api)), "POST", path_of(api), &conversation_key, &prompt_key);
    split.feed(body.substr(0, cut));
    split.feed(body.substr(cut));
    ASSERT_EQ(words(split.finish()), wanted) << cut;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> anchors;
    if (const auto prefix = split.take_prefix()) {
      for (const auto& anchor : prefix->anchors) anchors.emplace_back(anchor.position, anchor.key);
    }
    if (cut == 0) whole = anchors;
    ASSERT_EQ(anchors, whole) << cut;
  }
}

INSTANTIATE_TEST_SUITE_P(Apis, RequestBodies, testing::ValuesIn(bodies));

// Parsers overrun their buffers on long strings that are cut within a code point or an escape.
TEST(RequestInspector, ReadsLongStringsThatAreCutAnywhere) {
  const std::tuple<const char*, std::string, std::uint64_t> texts[] = {
      {"two bytes", "Ж", 1},         {"three bytes", "水", 1},         {"four bytes", "🙂", 1},
      {"an escape", R"(\u6c34)", 1}, {"a pair", R"(\ud83d\ude42)", 1}, {"mixed", R"(水\n\u6c34🙂\ud83d\ude42a)", 6},
  };
  for (const auto& [what, text, chars] : texts) {
    std::string content;
    std::uint64_t wanted = 0;
    for (; content.size() < 20'000; wanted += chars) content += text;
    const std::string body = R"({"messages":[{"content":")" + content + "\"}]}";
    for (std::size_t cut = 0; cut < 64; ++cut) {
      RequestInspector inspector(chat, "POST", path_of(chat));
      inspector.feed(std::string_view(body).substr(0, cut));
      inspector.feed(std::string_view(body).substr(cut, 8192));
      inspector.feed(std::string_view(body).substr(cut + 8192));
      const RequestFacts facts = inspector.finish();
      ASSERT_TRUE(facts.whole_json) << what << " " << cut;
      ASSERT_EQ(facts.text.chars(), wanted) << what << " " << cut;
    }
  }
}

TEST(RequestInspector, OnlyAPostGivesTheEngineWork) {
  for (const std::string_view method : {"POST", "GET", "HEAD", "OPTIONS", "PUT", "post"}) {
    RequestInspector inspector(api_of(method, path_of(chat)), method, path_of(chat));
    inspector.feed(bodies[0].text);
    EXPECT_EQ(inspector.finish().gives_work, method == "POST") << method;
  }
}

TEST(RequestInspector, ReadsAChatRequest) {
  const RequestFacts f = facts_of(chat, bodies[0].text);
  EXPECT_EQ(f.model, "qwen2.5-7b");
  EXPECT_TRUE(f.stream);
  EXPECT_EQ(f.max_tokens, 50U);
  EXPECT_EQ(f.n, 2U);
  EXPECT_TRUE(f.greedy);
  EXPECT_TRUE(f.tools);
  EXPECT_EQ(f.images, 1U);
  EXPECT_EQ(f.text.messages, 3U);
  EXPECT_TRUE(f.usage_requested);
  EXPECT_TRUE(f.stream_options);
  EXPECT_TRUE(f.whole_json);
  EXPECT_EQ(f.first_member_at, 2U);
  EXPECT_FALSE(f.empty_object);
  EXPECT_EQ(f.text.code_points[static_cast<std::size_t>(Script::cjk)], 2U);
  EXPECT_EQ(f.text.code_points[static_cast<std::size_t>(Script::cyrillic_greek)], 1U);
  EXPECT_EQ(f.text.code_points[static_cast<std::size_t>(Script::other)], 1U);
}

TEST(RequestInspector, CutsALongModelNameBetweenCodePoints) {
  EXPECT_EQ(facts_of(chat, R"({"model":")" + std::string(200, 'm') + "\"}").model, std::string(128, 'm'));
  EXPECT_EQ(facts_of(chat, R"({"model":")" + std::string(127, 'm') + "é\"}").model, std::string(127, 'm'));
  EXPECT_EQ(facts_of(chat, R"({"model":")" + std::string(126, 'm') + "é\"}").model, std::string(126, 'm') + "é");
  EXPECT_EQ(facts_of(chat, R"({"model":7})").model, "");
}

TEST(RequestInspector, SeesWhatTheClientSaysOfUsageItself) {
  for (const std::string options : {"null", "{}", R"({"include_usage":true})", R"({"include_usage":false})", "7"}) {
    const RequestFacts f = facts_of(chat, R"({"stream":true,"stream_options":)" + options + "}");
    EXPECT_TRUE(f.stream_options) << options;
    EXPECT_EQ(f.usage_requested, options == R"({"include_usage":true})") << options;
  }
  EXPECT_FALSE(facts_of(chat, R"({"stream":true})").stream_options);
  EXPECT_FALSE(facts_of(chat, R"({"stream":true})").token_timings);
  for (const std::string value : {"null", "false", "true", "[]"})
    EXPECT_TRUE(facts_of(chat, R"({"timings_per_token":)" + value + "}").token_timings) << value;
  EXPECT_FALSE(facts_of(chat, R"({"x":{"timings_per_token":true}})").token_timings);
}

TEST(RequestInspector, KnowsAnEmptyObject) {
  EXPECT_TRUE(facts_of(chat, "{}").empty_object);
  EXPECT_TRUE(facts_of(chat, " { } ").empty_object);
  EXPECT_FALSE(facts_of(chat, R"({"a":{}})").empty_object);
}

TEST(RequestInspector, SaysNothingOfABrokenBody) {
  for (const std::string body : {R"({"model":"m","stream":true)", R"({"model":"m"}{})", "[1]", "", "x", R"("a")",
                                 R"({"model":"m",})", "\xEF\xBB\xBF{}"}) {
    const RequestFacts f = facts_of(chat, body);
    EXPECT_FALSE(f.whole_json) << body;
    EXPECT_EQ(f.first_member_at, std::nullopt) << body;
    EXPECT_EQ(f.model, "") << body;
    EXPECT_EQ(f.api, chat) << body;
  }
}

TEST(RequestInspector, IsMovable) {
  RequestInspector first(chat, "POST", path_of(chat));
  first.feed(std::string_view(R"({"model":)"));
  RequestInspector second = std::move(first);
  second.feed(std::string_view(R"("m"})"));
  EXPECT_EQ(second.finish().model, "m");
}

std::string model_of(const std::string& body, std::size_t piece) {
  ModelReader reader;
  for (std::size_t at = 0; at < body.size(); at += piece) {
    const auto part = body.substr(at, piece);
    reader.feed(part);
  }
  return reader.model();
}

TEST(ModelReader, ReadsTheOutermostModelWhateverTheSplit) {
  const std::tuple<std::string, std::string> table[] = {
      {R"({"model":"m"})", "m"},
      {R"({"messages":[{"role":"user","content":"\"model\":\"x\"","model":"y"}],"model":"org/m-7b","n":1})",
       "org/m-7b"},
      {R"({"options":{"model":"inner"},"prompt":"p"})", ""},
      {R"({"model":"a","model":"b"})", "b"},
      {R"({"model":"a","model":7})", ""},
      {R"({"model":["a"]})", ""},
      {R"({"model":{"model":"a"}})", ""},
      {R"(["model","a"])", ""},
      {R"({"model":"\u006d\n"})", "m\n"},
      {R"({"model":null})", ""},
      {R"({"model":"m")", ""},
      {R"({"model":"m"} x)", ""},
      {"no json", ""},
      {"", ""},
      {R"({"model":")" + std::string(300, 'x') + R"("})", std::string(128, 'x')}};
  for (const auto& [body, model] : table)
    for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, std::size_t{7}, body.size() + 1})
      EXPECT_EQ(model_of(body, piece), model) << body << " in pieces of " << piece;
}

TEST(ModelReader, KnowsTheModelOfABeginningOnceItsTextIsWhole) {
  const std::tuple<std::string, std::string> table[] = {{R"({"model":"m","prom)", "m"},
                                                        {R"({"model":"m")", "m"},
                                                        {R"({"a":[{"model":"x"}],"model":"m",)", "m"},
                                                        {R"({"model":"m)", ""},
                                                        {R"({"prompt":"model)", ""},
                                                        {R"({"a":{"model":"x"},)", ""},
                                                        {R"(["model","m",)", ""},
                                                        {R"({"model":["m"],)", ""},
                                                        {R"({"model":"a","model":"b)", ""},
                                                        {R"({"model":"a","model":7,)", ""},
                                                        {"", ""}};
  for (const auto& [body, model] : table) {
    ModelReader reader;
    reader.feed(body);
    EXPECT_EQ(reader.model_so_far(), model) << body;
  }
}

TEST(ModelReader, AnUnreadRequestHasNoOtherFacts) {
  ModelReader reader;
  reader.feed(std::string_view(R"({"model":"m","stream":true,"max_tokens":7,"messages":[]})"));
  const auto post = facts_of_unread("POST", reader);
  EXPECT_EQ(post.model, "m");
  EXPECT_EQ(post.api, Api::other);
  EXPECT_TRUE(post.gives_work);
  EXPECT_FALSE(post.stream);
  EXPECT_TRUE(post.whole_json);
  EXPECT_FALSE(post.first_member_at) << "so that nothing is put into it";
  const auto get = facts_of_unread("GET", ModelReader());
  EXPECT_FALSE(get.gives_work);
  EXPECT_FALSE(get.whole_json);
}

}  // namespace
}  // namespace weir::metrics::wire

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "metrics/wire/request.hpp"

namespace weir::metrics::wire {
namespace {

constexpr auto chat = Api::openai_chat;
constexpr auto completions = Api::openai_completions;
constexpr auto responses = Api::openai_responses;
constexpr auto anthropic = Api::anthropic_messages;
constexpr auto tgi = Api::tgi_generate;
constexpr auto sglang = Api::sglang_generate;
constexpr auto llamacpp = Api::llamacpp_completion;
constexpr auto kobold = Api::kobold_generate;
constexpr auto ollama_chat = Api::ollama_chat;
constexpr auto ollama_generate = Api::ollama_generate;

std::string_view path_of(Api api) {
  switch (api) {
    case Api::openai_chat:
      return "/v1/chat/completions";
    case Api::openai_completions:
      return "/v1/completions";
    case Api::openai_responses:
      return "/v1/responses";
    case Api::anthropic_messages:
      return "/v1/messages";
    case Api::tgi_generate:
    case Api::sglang_generate:
      return "/generate";
    case Api::llamacpp_completion:
      return "/completion";
    case Api::kobold_generate:
      return "/api/v1/generate";
    case Api::ollama_chat:
      return "/api/chat";
    case Api::ollama_generate:
      return "/api/generate";
    case Api::other:
      return "/v1/embeddings";
  }
  return "";
}

RequestFacts facts_at(std::string_view path, std::string_view body) {
  RequestInspector inspector(api_of("POST", path), path);
  inspector.feed(body);
  return inspector.finish();
}

RequestFacts facts_of(Api api, std::string_view body) { return facts_at(path_of(api), body); }

std::string words(const RequestFacts& f) {
  std::ostringstream s;
  s << name_of(f.api) << " model " << f.model << (f.stream ? " stream" : "") << " max "
    << (f.max_tokens ? std::to_string(*f.max_tokens) : "-") << " n " << f.n << (f.greedy ? " greedy" : "")
    << (f.tools ? " tools" : "") << " images " << f.images << " ids "
    << (f.prompt_token_ids ? std::to_string(*f.prompt_token_ids) : "-") << " messages " << f.text.messages
    << " tool bytes " << f.text.tool_bytes << " chars";
  for (const std::uint64_t n : f.text.code_points) s << " " << n;
  s << (f.usage_requested ? " usage" : "") << (f.stream_options ? " options" : "") << (f.whole_json ? " whole" : "")
    << " at " << (f.first_member_at ? std::to_string(*f.first_member_at) : "-") << (f.empty_object ? " empty" : "")
    << (f.stored_context ? " stored" : "");
  return s.str();
}

// --- Every split

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
    RequestInspector split(api_of("POST", path_of(api)), path_of(api));
    split.feed(body.substr(0, cut));
    split.feed(body.substr(cut));
    ASSERT_EQ(words(split.finish()), wanted) << cut;
  }
  RequestInspector bytes(api_of("POST", path_of(api)), path_of(api));
  for (const char& byte : body) bytes.feed({&byte, 1});
  EXPECT_EQ(words(bytes.finish()), wanted);
}

INSTANTIATE_TEST_SUITE_P(Apis, RequestBodies, testing::ValuesIn(bodies));

// Long strings, cut within a code point or an escape, are where parsers overrun their buffers.
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
      RequestInspector inspector(chat, path_of(chat));
      inspector.feed(std::string_view(body).substr(0, cut));
      inspector.feed(std::string_view(body).substr(cut, 8192));
      inspector.feed(std::string_view(body).substr(cut + 8192));
      const RequestFacts facts = inspector.finish();
      ASSERT_TRUE(facts.whole_json) << what << " " << cut;
      ASSERT_EQ(facts.text.chars(), wanted) << what << " " << cut;
    }
  }
}

// --- Facts

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

struct Text {
  const char* what;
  Api api;
  std::string body;
  std::uint64_t chars;

  friend void PrintTo(const Text& text, std::ostream* out) { *out << text.what; }
};

class RequestText : public testing::TestWithParam<Text> {};

TEST_P(RequestText, CountsWhatAModelReads) {
  const RequestFacts f = facts_of(GetParam().api, GetParam().body);
  EXPECT_TRUE(f.whole_json);
  EXPECT_EQ(f.text.chars(), GetParam().chars);
}

INSTANTIATE_TEST_SUITE_P(
    Members, RequestText,
    testing::Values(
        Text{"content", chat, R"({"messages":[{"role":"user","name":"nn","content":"abc"}]})", 3},
        Text{"several messages", chat, R"({"messages":[{"content":"abc"},{"content":"de"}]})", 5},
        Text{"escapes", chat, R"({"messages":[{"content":"a\n\"\u00e9\ud83d\ude42"}]})", 5},
        Text{"text parts", chat,
             R"({"messages":[{"content":[{"type":"text","text":"abc"},{"text":"de","type":"text"}]}]})", 5},
        Text{"plain parts", chat, R"({"messages":[{"content":["abc","de"]}]})", 5},
        Text{"images are none", chat,
             R"({"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:abc","text":"x"}}]}]})", 0},
        Text{"null content", chat, R"({"messages":[{"content":null}]})", 0},
        Text{"content of a wrong kind", chat, R"({"messages":[{"content":{"text":"abc"}}]})", 0},
        Text{"messages of a wrong kind", chat, R"({"messages":{"content":"abc"}})", 0},
        Text{"reasoning", chat, R"({"messages":[{"content":"a","reasoning_content":"bc"}]})", 3},
        Text{"calls", chat, R"({"messages":[{"tool_calls":[{"name":"fn"}]}]})", 6},
        Text{"system", chat, R"({"system":"abc","messages":[]})", 3},
        Text{"system parts", chat, R"({"system":[{"type":"text","text":"abc"}]})", 3},
        Text{"tools", chat, R"({"tools":[{"name":"fn","n":12,"x":{"y":["z"]}}]})", 4 + 2 + 1 + 1 + 1 + 1},
        Text{"prompt is none of chat's", chat, R"({"prompt":"abc"})", 0},
        Text{"prompt", completions, R"({"prompt":"abc"})", 3},
        Text{"prompts", completions, R"({"prompt":["abc","de"]})", 5},
        Text{"messages are none of completions'", completions, R"({"messages":[{"content":"abc"}]})", 0},
        Text{"inputs", tgi, R"({"inputs":"abc","parameters":{"stop":["xyz"]}})", 3},
        Text{"the last of duplicates", chat, R"({"messages":[{"content":"abcdef"}],"messages":[{"content":"ab"}]})", 2},
        Text{"the last of duplicates, of another kind", completions, R"({"prompt":"abcdef","prompt":null})", 0},
        Text{"input", responses, R"({"input":"abc","instructions":"de"})", 5},
        Text{"input items", responses,
             R"({"input":[{"role":"user","content":"abc"},{"type":"message","content":[{"text":"de"}]}]})", 5},
        Text{"calls in input", responses,
             R"({"input":[{"type":"function_call","call_id":"zz","name":"fn","arguments":"{}"},
             {"type":"function_call_output","call_id":"zz","output":"abc"}]})",
             7},
        Text{"outputs in parts", responses, R"({"input":[{"output":[{"type":"input_text","text":"abc"}]}]})", 3},
        Text{
            "reasoning in input", responses,
            R"({"input":[{"type":"reasoning","encrypted_content":"zzzz","summary":[{"text":"ab"}],"content":[{"text":"c"}]}]})",
            3},
        Text{"messages are none of Responses", responses, R"({"messages":[{"content":"abc"}]})", 0},
        Text{"blocks", anthropic, R"({"system":"a","messages":[{"content":[{"type":"text","text":"bc"}]}]})", 3},
        Text{"thinking", anthropic, R"({"messages":[{"content":[{"thinking":"abc","signature":"zzzz"}]}]})", 3},
        Text{"tool use", anthropic,
             R"({"messages":[{"content":[{"type":"tool_use","id":"zz","name":"fn","input":{"k":["v",{"w":"x"}]}}]}]})",
             6},
        Text{"tool results", anthropic,
             R"({"messages":[{"content":[{"type":"tool_result","tool_use_id":"zz","content":"abc"},
             {"type":"tool_result","content":[{"type":"text","text":"de"}]}]}]})",
             5},
        Text{"SGLang text", sglang, R"({"text":"abc","rid":"zz"})", 3},
        Text{"SGLang texts", sglang, R"({"text":["abc","de"]})", 5},
        Text{"TGI beside text", tgi, R"({"inputs":"abc","text":"defg","image_data":"AA"})", 3},
        Text{"TGI behind text", tgi, R"({"text":"defg","inputs":"abc"})", 3},
        Text{"llama cpp prompt", llamacpp, R"({"prompt":"abc","grammar":"zz"})", 3},
        Text{"llama cpp mixed", llamacpp, R"({"prompt":[1,"abc",2]})", 3},
        Text{"llama cpp prompt object", llamacpp, R"({"prompt":{"prompt_string":"abc","multimodal_data":["AA"]}})", 3},
        Text{"Kobold", kobold, R"({"prompt":"abc","memory":"de","stop_sequence":["zz"]})", 5},
        Text{"Ollama generate", ollama_generate,
             R"({"prompt":"abc","system":"de","suffix":"f","images":["zz"],"template":"zz"})", 6},
        Text{"Ollama messages", ollama_chat, R"({"messages":[{"content":"abc","thinking":"de","images":["zz"]}]})", 5},
        Text{"Ollama calls", ollama_chat, R"({"messages":[{"content":"","tool_calls":[{"function":{"name":"fn"}}]}]})",
             14},
        Text{"text anywhere else", chat, R"({"metadata":{"content":"abc","text":"abc"},"user":"abc"})", 0}),
    [](const testing::TestParamInfo<Text>& one) {
      std::string name;
      for (const char* c = one.param.what; *c != '\0'; ++c)
        name += std::isalnum(static_cast<unsigned char>(*c)) ? *c : '_';
      return name;
    });

TEST(RequestInspector, CountsImagesAndOtherParts) {
  const RequestFacts f = facts_of(
      chat, R"({"messages":[{"content":[{"type":"input_audio","input_audio":{"data":"AA"}},{"type":"text","text":""},
      {"image_url":"http://x"},{"type":"refusal","refusal":"no"}]},{"content":[{"type":"image_url","image_url":{}}]}]})");
  EXPECT_EQ(f.images, 3U);
  EXPECT_EQ(f.text.chars(), 2U);
}

TEST(RequestInspector, CountsImagesWhereverADialectPutsThem) {
  const std::tuple<Api, std::string, std::uint32_t> cases[] = {
      {responses,
       R"({"input":[{"content":[{"type":"input_image","image_url":"u"},{"type":"input_file","file_data":"A"}]}]})", 2},
      {anthropic, R"({"messages":[{"content":[{"type":"image","source":{"type":"base64","data":"AA"}},
       {"type":"tool_result","content":[{"type":"image","source":{}},{"type":"text","text":"a"}]}]}]})",
       2},
      {anthropic, R"({"messages":[{"content":[{"type":"tool_use","name":"f","input":{}},{"type":"tool_result"}]}]})",
       1},
      {sglang, R"({"text":"a","image_data":"AA"})", 1},
      {sglang, R"({"text":"a","image_data":["AA","BB"]})", 2},
      {sglang, R"({"text":"a","image_data":null})", 0},
      {tgi, R"({"inputs":"a","image_data":["AA"]})", 0},
      {llamacpp, R"({"prompt":{"prompt_string":"a","multimodal_data":["AA","BB"]}})", 2},
      {kobold, R"({"prompt":"a","images":["AA"]})", 1},
      {ollama_generate, R"({"prompt":"a","images":["AA","BB"]})", 2},
      {ollama_chat, R"({"messages":[{"content":"a","images":["AA"]},{"content":"b","images":["BB"]}]})", 2},
  };
  for (const auto& [api, body, wanted] : cases) EXPECT_EQ(facts_of(api, body).images, wanted) << body;
}

TEST(RequestInspector, CountsMessages) {
  const std::tuple<Api, std::string, std::uint32_t> cases[] = {
      {chat, R"({"messages":[{},{"content":"a"}]})", 2},
      {chat, R"({"messages":[{},{}],"messages":[{}]})", 1},
      {responses, R"({"input":"a"})", 1},
      {responses, R"({"input":"a","instructions":"b"})", 2},
      {responses, R"({"input":"a","instructions":null})", 1},
      {responses, R"({"input":[{"role":"user","content":"a"},{"type":"function_call"}]})", 2},
      {anthropic, R"({"system":"a","messages":[{"content":"b"}]})", 2},
      {anthropic, R"({"system":[{"text":"a"},{"text":"b"}],"messages":[{"content":"b"}]})", 2},
      {ollama_generate, R"({"prompt":"a","system":"b"})", 1},
      {completions, R"({"prompt":"a"})", 0},
  };
  for (const auto& [api, body, wanted] : cases) EXPECT_EQ(facts_of(api, body).text.messages, wanted) << body;
}

TEST(RequestInspector, KnowsContextThatTheEngineKeeps) {
  EXPECT_TRUE(facts_of(responses, R"({"input":"a","previous_response_id":"r"})").stored_context);
  EXPECT_TRUE(facts_of(responses, R"({"input":"a","conversation":{"id":"c"}})").stored_context);
  EXPECT_FALSE(facts_of(responses, R"({"input":"a","previous_response_id":null})").stored_context);
  EXPECT_FALSE(facts_of(chat, R"({"messages":[],"previous_response_id":"r"})").stored_context);
}

TEST(RequestInspector, CountsTheBytesOfTheToolsAsCompactJson) {
  const std::string compact = R"([{"type":"function","n":-1.5e3,"x":[true,false,null,{},[]],"y":{"a":"b"}}])";
  const std::string spaced =
      R"([ { "type" : "function" , "n": -1.5e3, "x":[true, false, null, { }, [ ] ],"y":{"a":"b"} } ])";
  for (const std::string& tools : {compact, spaced}) {
    const RequestFacts f = facts_of(chat, R"({"tools":)" + tools + "}");
    EXPECT_EQ(f.text.tool_bytes, compact.size());
    EXPECT_TRUE(f.tools);
  }
}

TEST(RequestInspector, TakesEmptyOrMissingToolsForNone) {
  for (const std::string body : {R"({})", R"({"tools":[]})", R"({"tools":null})", R"({"tools":[{}],"tools":[]})"}) {
    EXPECT_FALSE(facts_of(chat, body).tools) << body;
  }
}

TEST(RequestInspector, ReadsTheLimitByEachDialectsName) {
  const std::tuple<Api, std::string, std::optional<std::uint64_t>> cases[] = {
      {chat, R"({"max_tokens":7})", 7},
      {chat, R"({"max_completion_tokens":8})", 8},
      {chat, R"({"max_completion_tokens":8,"max_tokens":7})", 8},
      {chat, R"({"max_tokens":7,"max_completion_tokens":null})", 7},
      {completions, R"({"max_tokens":7,"max_completion_tokens":8})", 7},
      {tgi, R"({"parameters":{"max_new_tokens":9},"max_tokens":7})", 9},
      {tgi, R"({"parameters":{"max_new_tokens":9},"parameters":{}})", std::nullopt},
      {chat, R"({"max_tokens":7.0})", 7},
      {chat, R"({"max_tokens":0})", 0},
      {chat, R"({"max_tokens":-1})", std::nullopt},
      {chat, R"({"max_tokens":1.5})", std::nullopt},
      {chat, R"({"max_tokens":1e300})", std::nullopt},
      {chat, R"({"max_tokens":99999999999999999999})", std::nullopt},
      {chat, R"({"max_tokens":"7"})", std::nullopt},
      {chat, R"({"max_tokens":[7]})", std::nullopt},
      {chat, R"({"max_tokens":5,"max_tokens":null})", std::nullopt},
      {chat, R"({"max_tokens":5,"max_tokens":6})", 6},
      {chat, R"({"x":{"max_tokens":5}})", std::nullopt},
      {Api::other, R"({"max_tokens":7})", std::nullopt},
      {responses, R"({"max_output_tokens":7,"max_tokens":8})", 7},
      {anthropic, R"({"max_tokens":7})", 7},
      {sglang, R"({"text":"a","sampling_params":{"max_new_tokens":7},"max_new_tokens":8})", 7},
      {sglang, R"({"text":"a","parameters":{"max_new_tokens":8}})", std::nullopt},
      {sglang, R"({"text":["a","b"],"sampling_params":[{"max_new_tokens":8},{"max_new_tokens":9}]})", std::nullopt},
      {tgi, R"({"sampling_params":{"max_new_tokens":8},"inputs":"a"})", std::nullopt},
      {llamacpp, R"({"n_predict":7})", 7},
      {llamacpp, R"({"n_predict":-1})", std::nullopt},
      {llamacpp, R"({"max_tokens":8})", 8},
      {llamacpp, R"({"max_tokens":8,"n_predict":7})", 7},
      {kobold, R"({"max_length":7,"max_tokens":8})", 7},
      {ollama_chat, R"({"options":{"num_predict":7},"num_predict":8})", 7},
      {ollama_generate, R"({"options":{"num_predict":-2}})", std::nullopt},
  };
  for (const auto& [api, body, wanted] : cases) EXPECT_EQ(facts_of(api, body).max_tokens, wanted) << body;
}

TEST(RequestInspector, MultipliesChoicesByPrompts) {
  const std::tuple<Api, std::string, std::uint32_t> cases[] = {
      {chat, R"({})", 1},
      {chat, R"({"n":3})", 3},
      {chat, R"({"n":0})", 1},
      {chat, R"({"n":-2})", 1},
      {completions, R"({"n":3,"prompt":"a"})", 3},
      {completions, R"({"n":3,"prompt":["a","b"]})", 6},
      {completions, R"({"prompt":["a"]})", 1},
      {completions, R"({"prompt":[]})", 1},
      {completions, R"({"prompt":[1,2,3]})", 1},
      {completions, R"({"prompt":[[1,2],[3]]})", 2},
      {completions, R"({"n":4000000000,"prompt":["a","b"]})", 4294967295U},
      {tgi, R"({"inputs":"a","parameters":{"best_of":2}})", 2},
      {sglang, R"({"text":"a","sampling_params":{"n":3}})", 3},
      {sglang, R"({"text":["a","b"],"sampling_params":{"n":3}})", 6},
      {sglang, R"({"input_ids":[[1],[2],[3]]})", 3},
      {sglang, R"({"input_ids":[1,2,3]})", 1},
      {tgi, R"({"inputs":"a","text":["b","c"],"n":4})", 1},
      {llamacpp, R"({"prompt":[1,"a",2]})", 1},
      {llamacpp, R"({"prompt":["a",1]})", 1},
      {llamacpp, R"({"prompt":["a",[1,2],{"prompt_string":"b"}]})", 3},
      {llamacpp, R"({"prompt":"a","n_cmpl":2})", 2},
      {kobold, R"({"prompt":"a","n":2})", 2},
      {anthropic, R"({"n":2})", 1},
      {responses, R"({"n":2})", 1},
      {ollama_chat, R"({"n":2})", 1},
  };
  for (const auto& [api, body, wanted] : cases) EXPECT_EQ(facts_of(api, body).n, wanted) << body;
}

TEST(RequestInspector, CountsTokenIds) {
  EXPECT_EQ(facts_of(completions, R"({"prompt":[1,2,3]})").prompt_token_ids, 3U);
  EXPECT_EQ(facts_of(completions, R"({"prompt":[[1,2],[3]]})").prompt_token_ids, 3U);
  EXPECT_EQ(facts_of(completions, R"({"prompt":"a"})").prompt_token_ids, std::nullopt);
  EXPECT_EQ(facts_of(completions, R"({"prompt":[1,2,3],"prompt":"a"})").prompt_token_ids, std::nullopt);
  EXPECT_EQ(facts_of(sglang, R"({"input_ids":[1,2,3]})").prompt_token_ids, 3U);
  EXPECT_EQ(facts_of(sglang, R"({"input_ids":[[1,2],[3]]})").prompt_token_ids, 3U);
  EXPECT_EQ(facts_of(tgi, R"({"inputs":"a","input_ids":[1,2,3]})").prompt_token_ids, std::nullopt);
  EXPECT_EQ(facts_of(llamacpp, R"({"prompt":[1,"a",2]})").prompt_token_ids, 2U);
  EXPECT_EQ(facts_of(llamacpp, R"({"prompt":[[1,"a"],"b",[2,3]]})").prompt_token_ids, 3U);
  EXPECT_EQ(facts_of(ollama_generate, R"({"prompt":"a","context":[1,2,3]})").prompt_token_ids, 3U);
}

TEST(RequestInspector, KnowsGreedyDecoding) {
  const std::tuple<Api, std::string, bool> cases[] = {
      {chat, R"({})", false},
      {chat, R"({"temperature":0})", true},
      {chat, R"({"temperature":0.0})", true},
      {chat, R"({"temperature":0.1})", false},
      {chat, R"({"temperature":null})", false},
      {tgi, R"({"inputs":"a"})", true},
      {tgi, R"({"inputs":"a","parameters":{"do_sample":false}})", true},
      {tgi, R"({"inputs":"a","parameters":{"do_sample":true}})", false},
      {tgi, R"({"inputs":"a","parameters":{"temperature":1,"top_k":0,"top_p":1.0,"typical_p":null}})", true},
      {tgi, R"({"inputs":"a","parameters":{"temperature":0.5}})", false},
      {tgi, R"({"inputs":"a","parameters":{"top_k":10}})", false},
      {tgi, R"({"inputs":"a","parameters":{"top_p":0.9}})", false},
      {tgi, R"({"inputs":"a","parameters":{"typical_p":0.9}})", false},
      {tgi, R"({"inputs":"a","parameters":{"top_k":10},"parameters":{}})", true},
      {sglang, R"({"text":"a"})", false},
      {sglang, R"({"text":"a","sampling_params":{"temperature":0}})", true},
      {sglang, R"({"text":"a","temperature":0})", false},
      {llamacpp, R"({"prompt":"a","temperature":-1})", true},
      {llamacpp, R"({"prompt":"a"})", false},
      {kobold, R"({"prompt":"a","temperature":0})", true},
      {anthropic, R"({"temperature":0})", true},
      {responses, R"({"temperature":0})", true},
      {ollama_chat, R"({"options":{"temperature":0}})", true},
      {ollama_chat, R"({"temperature":0})", false},
      {ollama_generate, R"({})", false},
  };
  for (const auto& [api, body, wanted] : cases) EXPECT_EQ(facts_of(api, body).greedy, wanted) << body;
}

TEST(RequestInspector, KnowsWhoStreamsByEachDialectsRule) {
  const std::tuple<std::string_view, std::string, bool> cases[] = {
      {"/v1/chat/completions", R"({"stream":true})", true},
      {"/v1/chat/completions", R"({"stream":"true"})", false},
      {"/v1/chat/completions", R"({"stream":true,"stream":false})", false},
      {"/v1/embeddings", R"({"stream":true})", true},
      {"/v1/responses", R"({"stream":true})", true},
      {"/v1/messages", R"({"stream":true})", true},
      {"/v1/messages", R"({})", false},
      {"/completion", R"({"prompt":"a","stream":true})", true},
      {"/completion", R"({"prompt":"a"})", false},
      // By the path: TGI, and Kobold.
      {"/generate", R"({"inputs":"a","stream":true})", false},
      {"/generate_stream", R"({"inputs":"a","stream":false})", true},
      {"/api/v1/generate", R"({"prompt":"a","stream":true})", false},
      {"/api/latest/generate", R"({"prompt":"a"})", false},
      {"/api/extra/generate/stream", R"({"prompt":"a","stream":false})", true},
      // SGLang, on TGI's path.
      {"/generate", R"({"text":"a","stream":true})", true},
      {"/generate", R"({"stream":true,"input_ids":[1]})", true},
      {"/generate", R"({"text":"a"})", false},
      // Ollama streams unless told not to.
      {"/api/chat", R"({})", true},
      {"/api/chat", R"({"stream":null})", true},
      {"/api/chat", R"({"stream":false})", false},
      {"/api/generate", R"({"prompt":"a"})", true},
      {"/api/generate", R"({"prompt":"a","stream":false})", false},
  };
  for (const auto& [path, body, wanted] : cases) EXPECT_EQ(facts_at(path, body).stream, wanted) << path << " " << body;
}

TEST(RequestInspector, TellsSglangFromTgiByTheBody) {
  const std::pair<std::string, Api> cases[] = {
      {R"({"text":"a"})", sglang},
      {R"({"input_ids":[1,2]})", sglang},
      {R"({"inputs":"a","text":"b"})", tgi},
      {R"({"text":"b","inputs":"a"})", tgi},
      {R"({})", tgi},
      {R"({"sampling_params":{}})", tgi},
  };
  for (const std::string_view path : {"/generate", "/generate_stream"}) {
    for (const auto& [body, wanted] : cases) EXPECT_EQ(facts_at(path, body).api, wanted) << path << " " << body;
  }
}

TEST(RequestInspector, CutsALongModelNameBetweenCodePoints) {
  EXPECT_EQ(facts_of(chat, R"({"model":")" + std::string(200, 'm') + "\"}").model, std::string(128, 'm'));
  EXPECT_EQ(facts_of(chat, R"({"model":")" + std::string(127, 'm') + "é\"}").model, std::string(127, 'm'));
  EXPECT_EQ(facts_of(chat, R"({"model":")" + std::string(126, 'm') + "é\"}").model, std::string(126, 'm') + "é");
  EXPECT_EQ(facts_of(chat, R"({"model":7})").model, "");
}

TEST(RequestInspector, SaysNothingOfABrokenBody) {
  for (const std::string body : {R"({"model":"m","stream":true)", R"({"model":"m"}{})", "[1]", "", "x", R"("a")",
                                 R"({"model":"m",})", "\xEF\xBB\xBF{}"}) {
    const RequestFacts f = facts_of(chat, body);
    EXPECT_FALSE(f.whole_json) << body;
    EXPECT_EQ(f.first_member_at, std::nullopt) << body;
    EXPECT_EQ(f.model, "") << body;
    EXPECT_EQ(f.api, chat) << body;
    EXPECT_EQ(usage_member(f), "") << body;
  }
}

TEST(RequestInspector, BoundsTheDepthItFollows) {
  const auto nested = [](std::size_t depth) {
    return R"({"x":)" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  EXPECT_TRUE(facts_of(chat, nested(200)).whole_json);
  EXPECT_FALSE(facts_of(chat, nested(100'000)).whole_json);
}

TEST(RequestInspector, IsMovable) {
  RequestInspector first(chat, path_of(chat));
  first.feed(std::string_view(R"({"model":)"));
  RequestInspector second = std::move(first);
  second.feed(std::string_view(R"("m"})"));
  EXPECT_EQ(second.finish().model, "m");
}

// --- Injection

TEST(UsageMember, MakesAWholeRequestThatAsksForUsage) {
  for (const std::string body : {R"({"stream":true})", " {\n \"model\":\"m\", \"stream\":true}"}) {
    for (const bool continuous : {false, true}) {
      const RequestFacts before = facts_of(chat, body);
      std::string injected = body;
      injected.insert(before.first_member_at.value(), usage_member(before, continuous));
      const RequestFacts after = facts_of(chat, injected);
      EXPECT_TRUE(after.whole_json) << injected;
      EXPECT_TRUE(after.usage_requested) << injected;
      EXPECT_EQ(after.model, before.model);
      EXPECT_TRUE(after.stream);
      EXPECT_EQ(injected.find("continuous_usage_stats") != std::string::npos, continuous);
    }
  }
}

TEST(UsageMember, IsForOpenAiStreamsWhoseClientSaidNothing) {
  EXPECT_NE(usage_member(facts_of(completions, R"({"stream":true})")), "");
  EXPECT_EQ(usage_member(facts_of(chat, R"({"stream":false})")), "");
  EXPECT_EQ(usage_member(facts_of(chat, R"({})")), "");
  EXPECT_EQ(usage_member(facts_of(tgi, R"({"inputs":"a"})")), "");
  for (const Api api : {Api::other, responses, anthropic, sglang, llamacpp, kobold, ollama_chat, ollama_generate}) {
    for (const bool continuous : {false, true}) {
      const RequestFacts f = facts_of(api, R"({"stream":true,"text":"a"})");
      EXPECT_EQ(usage_member(f, continuous), "") << name_of(api);
    }
  }
  for (const std::string options : {"null", "{}", R"({"include_usage":true})", R"({"include_usage":false})", "7"}) {
    const RequestFacts f = facts_of(chat, R"({"stream":true,"stream_options":)" + options + "}");
    EXPECT_TRUE(f.stream_options) << options;
    EXPECT_EQ(f.usage_requested, options == R"({"include_usage":true})") << options;
    EXPECT_EQ(usage_member(f), "") << options;
  }
}

TEST(RequestInspector, KnowsAnEmptyObject) {
  EXPECT_TRUE(facts_of(chat, "{}").empty_object);
  EXPECT_TRUE(facts_of(chat, " { } ").empty_object);
  EXPECT_FALSE(facts_of(chat, R"({"a":{}})").empty_object);
}

// --- Routes

TEST(RequestInspector, LeavesItToTheBodyWhetherTgisRootStreams) {
  const auto streams = [](std::string_view path, std::string_view body) {
    RequestInspector inspector(api_of("POST", path), path);
    inspector.feed(body);
    const auto facts = inspector.finish();
    EXPECT_EQ(facts.api, tgi);
    return facts.stream;
  };
  EXPECT_TRUE(streams("/", R"({"inputs":"a","stream":true})"));
  EXPECT_FALSE(streams("/", R"({"inputs":"a","stream":false})"));
  EXPECT_FALSE(streams("/", R"({"inputs":"a"})"));
  EXPECT_FALSE(streams("/generate", R"({"inputs":"a","stream":true})")) << "there the path says it";
  EXPECT_TRUE(streams("/generate_stream", R"({"inputs":"a"})"));
}

TEST(RequestInspector, TakesALimitBeyondAllBeliefForNone) {
  EXPECT_EQ(facts_of(completions, R"({"prompt":"a","max_tokens":4294967296})").max_tokens, 4294967296U);
  EXPECT_FALSE(facts_of(completions, R"({"prompt":"a","max_tokens":4294967297})").max_tokens);
}

TEST(ApiOf, KnowsItsRoutes) {
  const std::pair<std::string_view, Api> routes[] = {
      {"/v1/chat/completions", chat},
      {"/chat/completions", chat},
      {"/v1/completions", completions},
      {"/v1/responses", responses},
      {"/responses", responses},
      {"/v1/messages", anthropic},
      {"/", tgi},
      {"/generate", tgi},
      {"/generate_stream", tgi},
      {"/completion", llamacpp},
      {"/completions", llamacpp},
      {"/api/extra/generate/stream", kobold},
      {"/api/v1/generate", kobold},
      {"/api/latest/generate", kobold},
      {"/api/chat", ollama_chat},
      {"/api/generate", ollama_generate},
  };
  for (const auto& [path, api] : routes) {
    EXPECT_EQ(api_of("POST", path), api) << path;
    EXPECT_EQ(api_of("GET", path), Api::other) << path;
    EXPECT_EQ(api_of("POST", std::string(path) + "/"), Api::other) << path;
  }
  for (const std::string_view path : {"/v1/chat", "/generate_stream2", "", "/v1/embeddings", "/v1/generate"}) {
    EXPECT_EQ(api_of("POST", path), Api::other) << path;
  }
}

}  // namespace
}  // namespace weir::metrics::wire

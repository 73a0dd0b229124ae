#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <random>
#include <string>
#include <tuple>

#include "metrics/wire/request/inspector.hpp"
#include "tests/unit/metrics/wire/request/request_facts.hpp"

namespace weir::metrics::wire {
namespace {

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

/// Given byte by byte, no text is read at once.
TEST(RequestInspector, ReadsTextThatLiesWholeInAPieceAsItReadsSingleBytes) {
  std::mt19937_64 random(3);
  const std::string_view parts[] = {"a",
                                    "Some words, and 42 more of them. ",
                                    "\\n",
                                    "\\\"",
                                    "\\\\",
                                    "\\b",
                                    "\\/",
                                    "\\u0041",
                                    "\\ud83d\\ude42",
                                    "é",
                                    "水",
                                    "{[:,]}",
                                    "0123456789012345678901234567890123456789"};
  const auto text = [&] {
    std::string text = "\"";
    const std::uint64_t kinds = 1 + random() % std::size(parts), most = random() % 40;
    for (std::uint64_t n = 0; n < most; ++n) text += parts[random() % kinds];
    return text + '"';
  };
  const auto message = [&] {
    const std::string_view roles[] = {"user", "assistant", "system"};
    return R"({"role":")" + std::string(roles[random() % 3]) + R"(","content":)" +
           (random() % 2 == 0 ? text() : R"([{"type":"text","text":)" + text() + "}]") + R"(,"name":)" + text() +
           R"(,"tool_calls":[{"k":)" + text() + "}]}";
  };
  for (int round = 0; round < 500; ++round) {
    const std::string body = R"({"system":)" + text() + R"(,"tools":[{"d":)" + text() + R"(}],"messages":[)" +
                             message() + "," + message() + "," + message() + "]}";
    for (const auto* const key : {&conversation_key, static_cast<const ConversationKey*>(nullptr)}) {
      RequestInspector at_once(chat, "POST", path_of(chat), key), cut(chat, "POST", path_of(chat), key),
          single(chat, "POST", path_of(chat), key);
      at_once.feed(body);
      const std::size_t at = random() % body.size();
      cut.feed(std::string_view(body).substr(0, at));
      cut.feed(std::string_view(body).substr(at));
      for (const char& byte : body) single.feed({&byte, 1});
      const RequestFacts wanted = single.finish();
      ASSERT_TRUE(wanted.whole_json) << body;
      for (RequestInspector* one : {&at_once, &cut}) {
        const RequestFacts found = one->finish();
        ASSERT_EQ(found.text.code_points, wanted.text.code_points) << body;
        ASSERT_EQ(found.text.tool_bytes, wanted.text.tool_bytes) << body;
        ASSERT_EQ(found.text.messages, wanted.text.messages) << body;
        ASSERT_EQ(found.conversation, wanted.conversation) << body;
        ASSERT_EQ(found.user_messages, wanted.user_messages) << body;
      }
    }
  }
}

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

TEST(RequestInspector, ReadsTheNamesThatTieARequestToAReplica) {
  using enum NamedBy;
  const std::tuple<Api, std::string, NamedBy, std::string> cases[] = {
      {responses, R"({"input":"a","previous_response_id":"resp_1"})", stored, "resp_1"},
      {responses, R"({"previous_response_id":"resp_\u0031","input":"a"})", stored, "resp_1"},
      {responses, R"({"previous_response_id":"a","previous_response_id":"b"})", stored, "b"},
      {responses, R"({"previous_response_id":"a","previous_response_id":null})", stored, ""},
      {responses, R"({"previous_response_id":["a"]})", stored, ""},
      {responses, R"({"previous_response_id":7})", stored, ""},
      {responses, R"({"input":[{"previous_response_id":"a","user":"b"}]})", stored, ""},
      {responses, R"({"conversation":"conv_1"})", conversation, "conv_1"},
      {responses, R"({"conversation":{"id":"conv_1","x":"y"}})", conversation, "conv_1"},
      {responses, R"({"conversation":{"x":{"id":"conv_1"}}})", conversation, ""},
      {chat, R"({"previous_response_id":"a"})", stored, ""},
      {chat, R"({"conversation":"a"})", conversation, ""},
      {chat, R"({"messages":[],"session_params":{"id":"s1","rid":"r"}})", conversation, "s1"},
      {sglang, R"({"text":"a","session_params":{"rid":"r","id":"s1"}})", conversation, "s1"},
      {chat, R"({"id_slot":3})", slot, "3"},
      {llamacpp, R"({"prompt":"a","id_slot":0})", slot, "0"},
      {llamacpp, R"({"prompt":"a","id_slot":-1})", slot, ""},
      {llamacpp, R"({"prompt":"a","id_slot":1.5})", slot, ""},
      {llamacpp, R"({"prompt":"a","id_slot":[3]})", slot, ""},
      {chat, R"({"user":"u"})", user, "u"},
      {chat, R"({"user":""})", user, ""},
      {chat, R"({"user":5})", user, ""},
      {anthropic, R"({"session_id":"s"})", session_id, "s"},
      {completions, R"({"safety_identifier":"s"})", safety_identifier, "s"},
      {responses, R"({"prompt_cache_key":"k"})", prompt_cache_key, "k"},
      {Api::other, R"({"input_file_id":"file-1"})", stored, "file-1"},
  };
  for (const auto& [api, body, by, name] : cases) {
    const std::uint64_t wanted = name.empty() ? 0 : hash_of_name(name);
    EXPECT_EQ(facts_of(api, body).name(by), wanted) << body;
    RequestInspector in_pieces = inspector_at(path_of(api));
    for (const char& c : body) in_pieces.feed({&c, 1});
    EXPECT_EQ(in_pieces.finish().name(by), wanted) << body;
  }
  const auto facts = facts_of(chat, R"({"user":"a","session_id":"a"})");
  EXPECT_EQ(std::ranges::count(*facts.names, 0U), static_cast<std::ptrdiff_t>(facts.names->size() - 2));
}

TEST(RequestInspector, KnowsWhetherTheEngineIsToKeepTheAnswer) {
  EXPECT_TRUE(facts_of(responses, R"({"input":"a"})").stores);
  EXPECT_TRUE(facts_of(responses, R"({"store":true})").stores);
  EXPECT_FALSE(facts_of(responses, R"({"store":false})").stores);
  EXPECT_TRUE(facts_of(responses, R"({"store":false,"store":null})").stores);
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

}  // namespace
}  // namespace weir::metrics::wire

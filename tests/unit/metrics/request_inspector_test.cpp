#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "metrics/wire/request.hpp"

namespace weir::metrics::wire {
namespace {

constexpr auto chat = Api::openai_chat;
constexpr auto completions = Api::openai_completions;
constexpr auto tgi = Api::tgi_generate;

std::string_view path_of(Api api) {
  switch (api) {
    case Api::openai_chat:
      return "/v1/chat/completions";
    case Api::openai_completions:
      return "/v1/completions";
    case Api::tgi_generate:
      return "/generate_stream";
    default:
      return "/v1/embeddings";
  }
}

RequestFacts facts_of(Api api, std::string_view body) {
  RequestInspector inspector(api, path_of(api));
  inspector.feed(body);
  return inspector.finish();
}

std::string words(const RequestFacts& f) {
  std::ostringstream s;
  s << name_of(f.api) << " model " << f.model << (f.stream ? " stream" : "") << " max "
    << (f.max_tokens ? std::to_string(*f.max_tokens) : "-") << " n " << f.n << (f.greedy ? " greedy" : "")
    << (f.tools ? " tools" : "") << " images " << f.images << " ids "
    << (f.prompt_token_ids ? std::to_string(*f.prompt_token_ids) : "-") << " messages " << f.text.messages
    << " tool bytes " << f.text.tool_bytes << " chars";
  for (const std::uint64_t n : f.text.code_points) s << " " << n;
  s << (f.usage_requested ? " usage" : "") << (f.stream_options ? " options" : "") << (f.whole_json ? " whole" : "")
    << " at " << (f.first_member_at ? std::to_string(*f.first_member_at) : "-") << (f.empty_object ? " empty" : "");
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
    RequestInspector split(api, path_of(api));
    split.feed(body.substr(0, cut));
    split.feed(body.substr(cut));
    ASSERT_EQ(words(split.finish()), wanted) << cut;
  }
  RequestInspector bytes(api, path_of(api));
  for (const char& byte : body) bytes.feed({&byte, 1});
  EXPECT_EQ(words(bytes.finish()), wanted);
}

INSTANTIATE_TEST_SUITE_P(Apis, RequestBodies, testing::ValuesIn(bodies));

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
  };
  for (const auto& [api, body, wanted] : cases) EXPECT_EQ(facts_of(api, body).n, wanted) << body;
}

TEST(RequestInspector, CountsTokenIds) {
  EXPECT_EQ(facts_of(completions, R"({"prompt":[1,2,3]})").prompt_token_ids, 3U);
  EXPECT_EQ(facts_of(completions, R"({"prompt":[[1,2],[3]]})").prompt_token_ids, 3U);
  EXPECT_EQ(facts_of(completions, R"({"prompt":"a"})").prompt_token_ids, std::nullopt);
  EXPECT_EQ(facts_of(completions, R"({"prompt":[1,2,3],"prompt":"a"})").prompt_token_ids, std::nullopt);
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
  };
  for (const auto& [api, body, wanted] : cases) EXPECT_EQ(facts_of(api, body).greedy, wanted) << body;
}

TEST(RequestInspector, LetsThePathSayWhetherTgiStreams) {
  for (const std::string_view path : {"/generate", "/generate_stream"}) {
    RequestInspector inspector(tgi, path);
    inspector.feed(std::string_view(R"({"inputs":"a","stream":false})"));
    EXPECT_EQ(inspector.finish().stream, path == "/generate_stream");
  }
  EXPECT_TRUE(facts_of(Api::other, R"({"stream":true})").stream);
  EXPECT_FALSE(facts_of(chat, R"({"stream":"true"})").stream);
  EXPECT_FALSE(facts_of(chat, R"({"stream":true,"stream":false})").stream);
}

TEST(RequestInspector, LeavesSglangsGenerateToOthers) {
  EXPECT_EQ(facts_of(tgi, R"({"text":"a"})").api, Api::other);
  EXPECT_EQ(facts_of(tgi, R"({"input_ids":[1,2]})").api, Api::other);
  EXPECT_EQ(facts_of(tgi, R"({"inputs":"a","text":"b"})").api, tgi);
  EXPECT_EQ(facts_of(tgi, R"({})").api, tgi);
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
    const RequestFacts before = facts_of(chat, body);
    std::string injected = body;
    injected.insert(before.first_member_at.value(), usage_member(before));
    const RequestFacts after = facts_of(chat, injected);
    EXPECT_TRUE(after.whole_json) << injected;
    EXPECT_TRUE(after.usage_requested) << injected;
    EXPECT_EQ(after.model, before.model);
    EXPECT_TRUE(after.stream);
  }
}

TEST(UsageMember, IsForOpenAiStreamsWhoseClientSaidNothing) {
  EXPECT_NE(usage_member(facts_of(completions, R"({"stream":true})")), "");
  EXPECT_EQ(usage_member(facts_of(chat, R"({"stream":false})")), "");
  EXPECT_EQ(usage_member(facts_of(chat, R"({})")), "");
  EXPECT_EQ(usage_member(facts_of(tgi, R"({"inputs":"a"})")), "");
  EXPECT_EQ(usage_member(facts_of(Api::other, R"({"stream":true})")), "");
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

TEST(ApiOf, KnowsItsRoutes) {
  EXPECT_EQ(api_of("POST", "/v1/chat/completions"), chat);
  EXPECT_EQ(api_of("POST", "/v1/completions"), completions);
  EXPECT_EQ(api_of("POST", "/generate"), tgi);
  EXPECT_EQ(api_of("POST", "/generate_stream"), tgi);
  for (const std::string_view path :
       {"/v1/chat/completions/", "/v1/chat", "/generate_stream2", "/", "", "/v1/embeddings"}) {
    EXPECT_EQ(api_of("POST", path), Api::other) << path;
  }
  EXPECT_EQ(api_of("GET", "/v1/chat/completions"), Api::other);
}

}  // namespace
}  // namespace weir::metrics::wire

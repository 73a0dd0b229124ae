#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "metrics/wire/request/inspector.hpp"
#include "tests/unit/metrics/wire/request/request_facts.hpp"

namespace weir::metrics::wire {
namespace {

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
      {"/v1/embeddings", Api::openai_embeddings},
      {"/embed", Api::openai_embeddings},
      {"/v2/rerank", Api::rerank},
      {"/v1/reranking", Api::rerank},
      {"/score", Api::score},
  };
  for (const auto& [path, api] : routes) {
    EXPECT_EQ(api_of("POST", path), api) << path;
    EXPECT_EQ(api_of("GET", path), Api::other) << path;
    EXPECT_EQ(api_of("POST", std::string(path) + "/"), Api::other) << path;
  }
  for (const std::string_view path : {"/v1/chat", "/generate_stream2", "", "/v1/moderations", "/v1/generate"}) {
    EXPECT_EQ(api_of("POST", path), Api::other) << path;
  }
}

TEST(RequestInspector, ReadsTheTextsThatAreToBeEmbeddedOrRanked) {
  const std::tuple<std::string_view, std::string, std::uint64_t, std::uint32_t> cases[] = {
      {"/v1/embeddings", R"({"input":"abc"})", 3, 1},
      {"/v1/embeddings", R"({"input":["abc","de"],"dimensions":8})", 5, 2},
      {"/embed", R"({"inputs":["abc","de"]})", 5, 2},
      {"/v1/rerank", R"({"query":"ab","documents":["cde",{"text":"f"}],"top_n":1})", 6, 2},
      {"/rerank", R"({"query":"ab","texts":["cde"]})", 5, 1},
      {"/v1/score", R"({"text_1":"ab","text_2":["c","d"]})", 4, 2},
  };
  for (const auto& [path, body, chars, prompts] : cases) {
    const RequestFacts facts = facts_at(path, body);
    EXPECT_EQ(facts.text.chars(), chars) << body;
    EXPECT_EQ(facts.prompts, prompts) << body;
    EXPECT_FALSE(facts.stream) << body;
    EXPECT_TRUE(facts.whole_json) << body;
  }
  EXPECT_EQ(facts_at("/v1/embeddings", R"({"input":[1,2,3]})").prompt_token_ids, 3U);
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

TEST(RequestInspector, LeavesItToTheBodyWhetherTgisRootStreams) {
  const auto streams = [](std::string_view path, std::string_view body) {
    RequestInspector inspector(api_of("POST", path), "POST", path);
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

}  // namespace
}  // namespace weir::metrics::wire

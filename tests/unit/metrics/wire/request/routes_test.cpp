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

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <tuple>

#include "metrics/wire/request/inspector.hpp"
#include "tests/unit/metrics/wire/request/request_facts.hpp"

namespace weir::metrics::wire {
namespace {

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

TEST(RequestInspector, TakesALimitBeyondAllBeliefForNone) {
  EXPECT_EQ(facts_of(completions, R"({"prompt":"a","max_tokens":4294967296})").max_tokens, 4294967296U);
  EXPECT_FALSE(facts_of(completions, R"({"prompt":"a","max_tokens":4294967297})").max_tokens);
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

TEST(RequestInspector, TellsPromptsFromTheirChoices) {
  const std::tuple<Api, std::string, std::uint32_t> cases[] = {
      {completions, R"({"prompt":"a","n":4})", 1},
      {completions, R"({"prompt":["a","b"],"n":4})", 2},
      {completions, R"({"prompt":[1,2,3],"n":4})", 1},
      {completions, R"({"prompt":[[1,2],[3]]})", 2},
      {completions, R"({"n":4})", 1},
      {chat, R"({"messages":[{"content":"a"},{}],"n":4})", 1},
      {sglang, R"({"text":["a","b","c"]})", 3},
      {llamacpp, R"({"prompt":["a",[1,2]]})", 2},
  };
  for (const auto& [api, body, wanted] : cases) EXPECT_EQ(facts_of(api, body).prompts, wanted) << body;
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
      {"/v1/moderations", R"({"stream":true})", true},
      {"/v1/embeddings", R"({"stream":true})", false},
      {"/v1/responses", R"({"stream":true})", true},
      {"/v1/messages", R"({"stream":true})", true},
      {"/v1/messages", R"({})", false},
      {"/completion", R"({"prompt":"a","stream":true})", true},
      {"/completion", R"({"prompt":"a"})", false},
      // The path says it for TGI and Kobold.
      {"/generate", R"({"inputs":"a","stream":true})", false},
      {"/generate_stream", R"({"inputs":"a","stream":false})", true},
      {"/api/v1/generate", R"({"prompt":"a","stream":true})", false},
      {"/api/latest/generate", R"({"prompt":"a"})", false},
      {"/api/extra/generate/stream", R"({"prompt":"a","stream":false})", true},
      // SGLang uses TGI's path.
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

}  // namespace
}  // namespace weir::metrics::wire

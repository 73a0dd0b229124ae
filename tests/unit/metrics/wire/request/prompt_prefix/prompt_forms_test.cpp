// Prompts that are plain text, token ids or pictures, and bodies whose prompt is not known.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/unit/metrics/wire/request/prompt_prefix/anchors.hpp"

namespace weir::metrics::wire::prompt_prefix {
namespace {

TEST(PromptPrefix, ReadsPlainPrompts) {
  const std::string text(1000, 'a');
  for (const auto& [api, member] :
       {std::pair{completions, "prompt"}, std::pair{llamacpp, "prompt"}, std::pair{tgi, "inputs"},
        std::pair{sglang, "text"}, std::pair{kobold, "prompt"}, std::pair{ollama_generate, "prompt"}}) {
    const auto body = [name = member](const std::string& said) {
      return R"({")" + std::string(name) + R"(":")" + said + "\"}";
    };
    const Anchors all = anchors(api, body(text));
    ASSERT_EQ(all.size(), 4U) << name_of(api);
    EXPECT_EQ(all[0].first, 256U);
    EXPECT_EQ(all[3].first, 1000U);
    // The end of a prompt is a beginning of a longer one, if a rung is there.
    EXPECT_EQ(anchors(api, body(text.substr(0, 512))), Anchors(all.begin(), all.begin() + 2));
    EXPECT_FALSE(share_a_key(all, anchors(api, body("b" + text))));
    EXPECT_EQ(anchors(api, body("")), Anchors());
  }
  EXPECT_EQ(anchors(completions, R"({"prompt":["abc"]})"), anchors(completions, R"({"prompt":"abc"})"));
  for (const std::string is_void : {"[1]", R"([1,"a"])", R"(["a","b"])", "\"x\"", "null"})
    EXPECT_EQ(anchors(completions, R"({"prompt":)" + is_void + R"(,"prompt":"abc"})"),
              anchors(completions, R"({"prompt":"abc"})"));
  // Routes that render messages, a text or a text within a template share nothing.
  const Anchors plain = anchors(completions, R"({"prompt":"abc"})");
  EXPECT_EQ(plain, anchors(tgi, R"({"inputs":"abc"})"));
  EXPECT_FALSE(share_a_key(plain, anchors(ollama_generate, R"({"prompt":"abc"})")));
  EXPECT_FALSE(share_a_key(plain, anchors(responses, R"({"input":"abc"})")));
  EXPECT_FALSE(share_a_key(plain, anchors(tgi, R"({"inputs":"abc","parameters":{"adapter_id":"a"}})")));
  EXPECT_EQ(plain, anchors(tgi, R"({"inputs":"abc","parameters":{"adapter_id":"a"},"parameters":{"top_k":1}})"));
}

TEST(PromptPrefix, CountsTokenIds) {
  const auto ids = [](std::size_t n, std::size_t first = 0) {
    std::string list = "[";
    for (std::size_t i = 0; i < n; ++i) list += std::to_string(first + i) + ",";
    list.back() = ']';
    return list;
  };
  for (const auto& [api, member] : {std::pair{completions, "prompt"}, std::pair{sglang, "input_ids"}}) {
    const auto of = [kind = api, name = std::string(member)](const std::string& list) {
      return prefix_of(kind, {R"({")" + name + "\":" + list + "}"});
    };
    const auto prefix = of(ids(1000));
    ASSERT_NE(prefix, nullptr);
    EXPECT_TRUE(prefix->token_ids);
    EXPECT_EQ(prefix->length(), 1000U);
    const Anchors all = anchors_of(prefix);
    EXPECT_EQ(all[0].first, 16U);
    EXPECT_EQ(all[1].first, 32U);
    for (std::size_t i = 0; i + 1 < all.size(); ++i) EXPECT_EQ(all[i].first % 16, 0U);
    EXPECT_LE(all.size(), 60U);
    const Anchors shorter = anchors_of(of(ids(160)));
    EXPECT_EQ(shorter, Anchors(all.begin(), all.begin() + 10));
    EXPECT_EQ(anchors_of(of("[" + ids(1000) + "]")), all);
    EXPECT_FALSE(share_a_key(all, anchors_of(of(ids(1000, 1)))));
    EXPECT_EQ(of("[" + ids(3) + "," + ids(4) + "]"), nullptr);
    EXPECT_EQ(of(R"(["a",1])"), nullptr);
    EXPECT_EQ(of(R"([1,"a"])"), nullptr);
    EXPECT_EQ(of("[]"), nullptr);
  }
}

TEST(PromptPrefix, CountsIdsAloneWhereTheyAreThePrompt) {
  const auto with = prefix_of(sglang, {R"({"input_ids":[1,2],"image_data":["a"]})"}),
             without = prefix_of(sglang, {R"({"input_ids":[1,2]})"});
  ASSERT_EQ(with->anchors.size(), 1U);
  EXPECT_EQ(with->length(), 2U);
  EXPECT_NE(with->anchors[0].key, without->anchors[0].key);
}

TEST(PromptPrefix, IsAbsentWhereThePromptIsNotKnown) {
  const std::pair<Api, std::string> bodies[] = {
      {chat, R"({"messages":[{"content":"a"}])"},
      {chat, R"({"messages":[{"content":"a"}]} x)"},
      {chat, ""},
      {chat, "[1]"},
      {chat, "{}"},
      {chat, R"({"messages":[]})"},
      {chat, R"({"messages":"a"})"},
      {chat, R"({"messages":[{"content":"a"}],"messages":null})"},
      {completions, R"({"prompt":["a","b"]})"},
      // The engine reads nothing from its cache, or has another prompt than is here.
      {chat, R"({"prompt_logprobs":0,"messages":[{"content":"a"}]})"},
      {chat, R"({"messages":[{"content":"a"}],"truncate_prompt_tokens":7})"},
      {chat, R"({"prompt_logprobs":false,"messages":[{"content":"a"}]})"},
      {chat, R"({"prompt_logprobs":"1","messages":[{"content":"a"}]})"},
      {chat, R"({"prompt_logprob\u0073":1,"messages":[{"content":"a"}]})"},
      {chat, R"({"messages":[{"content":"a"}],"use_beam_search":true})"},
      {completions, R"({"prompt":"a","use_beam_search":"true"})"},
      {sglang, R"({"text":"a","return_logprob":true,"logprob_start_len":"0"})"},
      {chat, R"({"messages":[{"content":"a"}],"cache_prompt":false})"},
      // Engines take these for numbers and booleans.
      {chat, R"({"messages":[{"content":"a"}],"truncate_prompt_tokens":"7"})"},
      {chat, R"({"messages":[{"content":"a"}],"prompt_logprobs":"0"})"},
      {chat, R"({"messages":[{"content":"a"}],"prompt_logprobs":false})"},
      {chat, R"({"messages":[{"content":"a"}],"prompt_logprobs":-1})"},
      {chat, R"({"messages":[{"content":"a"}],"cache_prompt":0})"},
      {chat, R"({"messages":[{"content":"a"}],"cache_prompt":"false"})"},
      {completions, R"({"prompt":"a","echo":"true","logprobs":1})"},
      {completions, R"({"prompt":"a","echo":1,"logprobs":1})"},
      {sglang, R"({"text":["a"],"return_logprob":[true],"logprob_start_len":[0]})"},
      {sglang, R"({"text":"a","return_logprob":true,"logprob_start_len":"0"})"},
      {sglang, R"({"text":"a","return_logprob":true,"logprob_start_len":false})"},
      {chat, R"({"messages":[{"content":"a"}],"truncate_prompt_tokens":{"a":7}})"},
      // Too long to be told from others.
      {chat, R"({"messages":[{"content":"a"}],")" + std::string(33, 'k') + R"(":1})"},
      {chat, R"({"messages":[{"content":"a",")" + std::string(33, 'k') + R"(":1}]})"},
      {chat, R"({"messages":[{"content":[{"image_url":"a",")" + std::string(33, 'k') + R"(":1}]}]})"},
      {chat, R"({"messages":[{"content":"a"}],"tools":[)" + std::string(65, '1') + "]}"},
      {completions, R"({"prompt":"a","echo":true,"logprobs":1})"},
      {Api::llamacpp_completion, R"({"prompt":"a","cache_prompt":false})"},
      {tgi, R"({"inputs":"a","parameters":{"truncate":7}})"},
      {tgi, R"({"inputs":"a","parameters":{"decoder_input_details":true}})"},
      {chat, R"({"messages":[{"content":"a"}],"model":")" + std::string(longest_model, 'm') + "\"}"},
      {responses, R"({"input":"a","previous_response_id":"r"})"},
      {ollama_generate, R"({"prompt":"a","context":[1]})"},
      {sglang, R"({"text":"a","input_ids":[1]})"},
      {sglang, R"({"text":"a","return_logprob":true,"logprob_start_len":0})"},
      {tgi, R"({"text":"a","inputs":"a"})"},
      {Api::openai_embeddings, R"({"input":"a"})"},
      {Api::rerank, R"({"query":"a","documents":["b"]})"},
      {Api::score, R"({"text_1":"a"})"},
      {Api::other, R"({"messages":[{"content":"a"}]})"},
  };
  for (const auto& [api, body] : bodies) EXPECT_EQ(prefix_of(api, {body}), nullptr) << body;
  const std::pair<Api, std::string> known[] = {
      {chat, R"({"prompt_logprobs":null,"messages":[{"content":"a"}],"truncate_prompt_tokens":null})"},
      {chat, R"({"messages":[{"content":"a"}],"cache_prompt":true,"echo":true})"},
      {completions, R"({"prompt":"a","echo":false})"},
      {chat, R"({"messages":[{"content":"a"}],")" + std::string(32, 'k') + R"(":1})"},
      {chat, R"({"messages":[{"content":"a"}],"tools":[{")" + std::string(33, 'k') + R"(":1}]})"},
      {chat, R"({"messages":[{"content":"a"}],"stream_options":{")" + std::string(33, 'k') + R"(":1}})"},
      {chat, R"({"messages":[{"content":"a"}],"tools":[)" + std::string(64, '1') + "]}"},
      {completions, R"({"prompt":"a","use_beam_search":false})"},
      {tgi, R"({"inputs":"a","parameters":{"truncate":null}})"},
      {tgi, R"({"inputs":"a","parameters":{"decoder_input_details":false}})"},
      {chat, R"({"messages":[{"content":"a"}],"model":")" + std::string(longest_model - 1, 'm') + "\"}"},
      {sglang, R"({"text":"a","return_logprob":true,"logprob_start_len":-1})"},
  };
  for (const auto& [api, body] : known) EXPECT_NE(prefix_of(api, {body}), nullptr) << body;
  RequestInspector inspector(chat, "POST", path_of(chat));
  inspector.feed(std::string_view(R"({"messages":[{"content":"a"}]})"));
  inspector.finish();
  EXPECT_EQ(inspector.take_prefix(), nullptr);
}

TEST(PromptPrefix, CountsPicturesAlikeWherever) {
  const auto length = [](Api api, const std::string& body) {
    const auto prefix = prefix_of(api, {body});
    return prefix == nullptr ? 0 : prefix->length();
  };
  EXPECT_EQ(length(chat, R"({"messages":[{"content":["a",{"type":"image_url","image_url":{"url":"data"}}]}]})"),
            1U + 4000 + 16);
  EXPECT_EQ(length(ollama_chat, R"({"messages":[{"content":"a","images":["data","b"]}]})"), 1U + 8000 + 16);
  EXPECT_EQ(length(ollama_generate, R"({"prompt":"a","images":["data"]})"), 1U + 4000);
  EXPECT_EQ(length(llamacpp, R"({"prompt":{"prompt_string":"a","multimodal_data":["b"]}})"), 1U + 4000);
  const auto ollama = [](const std::string& images) {
    return anchors(ollama_chat, R"({"messages":[{"content":"a","images":)" + images + "}]}");
  };
  EXPECT_FALSE(share_a_key(ollama(R"(["a","b"])"), ollama(R"(["b","a"])")));
  EXPECT_FALSE(share_a_key(ollama(R"(["ab"])"), ollama(R"(["ac"])")));
}

}  // namespace
}  // namespace weir::metrics::wire::prompt_prefix

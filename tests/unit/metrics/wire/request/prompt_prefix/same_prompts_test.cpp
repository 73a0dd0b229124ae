// Which bodies have the same prompt, and which are kept apart.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/unit/metrics/wire/request/prompt_prefix/anchors.hpp"

namespace weir::metrics::wire::prompt_prefix {
namespace {

const char* const told =
    R"("model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Aé\nb"}])";

TEST(PromptPrefix, DoesNotDependOnWhatIsNotRendered) {
  const auto body = [](const std::string& more) { return "{" + std::string(told) + more + "}"; };
  const Anchors wanted = anchors(chat, body(""));
  ASSERT_EQ(wanted.size(), 2U);
  for (const std::string more :
       {"", R"(,"temperature":0)", R"(,"stream":true,"n":3,"stop":["a"],"user":"u","metadata":{"a":"b"},"seed":7)",
        R"(,"request_id":"a","kv_transfer_params":{"a":[1]},"bootstrap_room":7,"unknown":null)", R"(,"tool_choice":"auto")", R"(,"tool_choice":"required")",
        R"(,"tool_choice":"none","tool_choice":null)", R"(,"tool_choice":{"a":1},"tool_choice":"auto")",
        R"(,"cache_salt":null,"tools":null)", R"(,"tools":[1],"tools":null)"})
    EXPECT_EQ(anchors(chat, body(more)), wanted) << more;
  for (const std::string& same : std::vector<std::string>{
        R"({"messages":[{"content":"Be brief.","role":"system"},{"content":"A\u00e9\u000ab","role":"user"}],"model":"m"})",
        R"( { "model" : "x" , "messages":[{"role":"user","content":"no"}] , )" + std::string(told) + " } ",
        R"({"model":"m","messages":[{"role":"system","content":[{"type":"text","text":"Be brief.","cache_control":{}}]},
           {"role":"user","content":[{"text":"Aé\nb","type":"text"}],"cache_control":{}}]})"})
    EXPECT_EQ(anchors(chat, same), wanted) << same;
}

/// The parameters of the engines' own clients, which many set anew for each request. A name that is taken for one that a
/// template may render costs all their requests the common prefix.
TEST(PromptPrefix, DoesNotDependOnTheParametersOfAnyEngine) {
  const Anchors wanted = anchors(chat, "{" + std::string(told) + "}");
  std::istringstream names(
      // The OpenAI SDK's ChatCompletionCreateParams.
      "frequency_penalty logit_bias logprobs max_completion_tokens max_tokens metadata n prediction presence_penalty "
      "prompt_cache_key safety_identifier seed service_tier stop store stream_options temperature top_logprobs top_p "
      "user "
      // vLLM's SamplingParams and ChatCompletionRequest.
      "allowed_token_ids bad_words guided_choice guided_grammar guided_json guided_regex ignore_eos "
      "include_stop_str_in_output kv_transfer_params length_penalty logits_processors min_p min_tokens priority "
      "repetition_penalty request_id return_token_ids return_tokens_as_token_ids skip_special_tokens "
      "spaces_between_special_tokens stop_token_ids structured_outputs top_k vllm_xargs "
      // SGLang's ChatCompletionRequest.
      "bootstrap_host bootstrap_port bootstrap_room custom_labels custom_logit_processor custom_params "
      "ebnf log_metrics no_stop_trim regex return_hidden_states rid separate_reasoning "
      "stream_reasoning "
      // llama.cpp's README of its server.
      "dry_allowed_length dry_base dry_multiplier dry_penalty_last_n dry_sequence_breakers dynatemp_exponent "
      "dynatemp_range grammar min_keep mirostat mirostat_eta mirostat_tau n_indent n_keep n_predict n_probs "
      "post_sampling_probs repeat_last_n repeat_penalty response_fields return_progress return_tokens samplers "
      "t_max_predict_ms timings_per_token typical_p xtc_probability xtc_threshold "
      // Ollama's API and KoboldCpp's.
      "format genkey keep_alive max_length rep_pen rep_pen_range rep_pen_slope sampler_order sampler_seed "
      "stop_sequence tfs top_a trim_stop typical");
  for (std::string name; names >> name;)
    EXPECT_EQ(anchors(chat, "{" + std::string(told) + ",\"" + name + "\":[1]}"), wanted) << name;
}

TEST(PromptPrefix, KeepsApartWhatIsNotTheSame) {
  std::vector<std::string> bodies;
  const auto also = [&](const std::string& more) { bodies.push_back("{" + std::string(told) + more + "}"); };
  for (const std::string more :
       {"", R"(,"model":"other")", R"(,"cache_salt":"")", R"(,"cache_salt":"a")", R"(,"extra_key":"a")",
        R"(,"lora_path":"a")", R"(,"chat_template":"a")", R"(,"chat_template_kwargs":{"a":true})",
        R"(,"chat_template_kwargs":{"a":false})", R"(,"chat_template_kwargs":{"a":"true"})",
        R"(,"documents":["a","b"])", R"(,"documents":["b","a"])", R"(,"documents":["ab"])",
        R"(,"documents":[["a"],"b"])", R"(,"documents":[{"a":"b"}])", R"(,"reasoning_effort":"low")",
        R"(,"unknown":"a")", R"(,"unknown":"b")", R"(,"unknown2":"a")", R"(,"unknown":"a","unknown2":"a")",
        R"(,"unknown":{"messages":[1]})", R"(,"unknown":1)", R"(,"unknown":true)", R"(,"add_generation_prompt":false)",
        R"(,"unknown":"a","unknown":"b","unknown2":null)", R"(,"audio_data":"a")",
        R"(,"tools":["a"])", R"(,"tools":[1])", R"(,"tools":[1.0])", R"(,"tools":["1"])", R"(,"tools":[1e0])",
        R"(,"tools":[100])", R"(,"tools":[1e2])", R"(,"tools":[1E2])", R"(,"tools":[1e2,"x"])", R"(,"tools":[100,"1e2x"])",
        R"(,"tools":[9007199254740992])", R"(,"tools":[9007199254740993])", R"(,"tools":[0])", R"(,"tools":[-0])",
        R"(,"tools":[1e400])", R"(,"tools":[1e401])", R"(,"id_slot":0)", R"(,"id_slot":1)", R"(,"functions":["a"])",
        R"(,"system":"a")", R"(,"add_special_tokens":false)", R"(,"tool_choice":"none")",
        R"(,"tool_choice":{"type":"function","function":{"name":"f"}})",
        R"(,"tool_choice":{"type":"function","function":{"name":"g"}})"})
    also(more);
  std::set<std::uint64_t> keys;
  std::size_t anchors_there = 0;
  for (const auto& body : bodies) {
    for (const std::uint64_t seed : {0U, 1U}) {
      const Anchors all = anchors(chat, body, seed);
      anchors_there += all.size();
      keys.merge(keys_of(all));
    }
  }
  EXPECT_EQ(anchors_there, bodies.size() * 4);
  EXPECT_EQ(keys.size(), anchors_there);
}

TEST(PromptPrefix, KnowsAToolChoiceHoweverItIsCutOrRepeated) {
  const auto body = [](const std::string& more) { return "{" + std::string(told) + more + "}"; };
  const std::string none = R"(,"tool_choice":"none")", object = R"(,"tool_choice":{"name":"f"})";
  for (const auto& [more, same] : std::vector<std::pair<std::string, std::string>>{
           {none, none},
           {R"(,"tool_choice":"n\u006fne")", none},
           {none + none, none},
           {R"(,"tool_choice":"auto")" + none, none},
           {object + none, none},
           {R"(,"tool_choice":"no","tool_choice":"ne")", ""},
           {R"(,"tool_choice":"non")", ""},
           {R"(,"tool_choice":"nonesuch")", ""},
           {none + R"(,"tool_choice":"auto")", ""},
           {object, object},
           {none + object, object}}) {
    const Anchors wanted = anchors(chat, body(same));
    const std::string text = body(more);
    EXPECT_EQ(anchors(chat, text), wanted) << more;
    std::vector<std::string_view> bytes;
    for (std::size_t i = 0; i < text.size(); ++i) bytes.push_back(std::string_view(text).substr(i, 1));
    EXPECT_EQ(anchors_of(prefix_of(chat, bytes)), wanted) << more << ", byte by byte";
  }
}

TEST(PromptPrefix, KeepsListsOfMessagesApart) {
  // Members of a list, as JSON. No two may end alike.
  const std::vector<std::string> lists = {
      R"({"content":"a"})",
      R"({"content":"b"})",
      R"({"role":"user","content":"a"})",
      R"({"role":"users","content":"a"})",
      R"({"name":"user","content":"a"})",
      R"({"role":"user","name":"user","content":"a"})",
      R"({"content":"a"},{})",
      R"({},{"content":"a"})",
      R"({"content":["a"]},{"content":"b"})",
      R"({"content":["a","b"]})",
      R"({"content":"ab"})",
      R"({"content":["ab",""]})",
      R"({"content":["","ab"]})",
      R"({"content":"a","reasoning":"b"})",
      R"({"reasoning":"b","content":"a"})",
      R"({"reasoning_content":"b","content":"a"})",
      R"({"reasoning":"a"})",
      R"({"content":[{"text":"a","thinking":"b"}]})",
      R"({"content":[{"text":"a"},{"thinking":"b"}]})",
      R"({"content":[{"thinking":"b"},{"text":"a"}]})",
      R"({"content":[{"type":"image_url","image_url":{"url":"a"}}]})",
      R"({"content":[{"type":"image_url","image_url":{"url":"b"}}]})",
      R"({"content":[{"type":"image_url","image_url":{"url":"a","detail":"low"}}]})",
      R"({"content":[{"type":"input_image","image_url":"a"}]})",
      R"({"content":[{"type":"image_url","image_url":{"url":"a"}},{"type":"image_url","image_url":{"url":"b"}}]})",
      R"({"content":[{"type":"image_url","image_url":{"url":"b"}},{"type":"image_url","image_url":{"url":"a"}}]})",
      R"({"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]})",
      R"({"tool_calls":[{"function":{"name":"f{","arguments":"}"}}]})",
      R"({"tool_calls":[{"function":{"name":"f"},"arguments":"{}"}]})",
      R"({"tool_calls":[{"function":{"name":"f"}},{"arguments":"{}"}]})",
      R"({"function_call":{"name":"f","arguments":"{}"}})",
      R"({"tool_call_id":"a","content":"b"})",
      R"({"tool_call_id":"b","content":"a"})",
      R"({"unknown":"b","content":"a"})",
      R"({"unknown":"a","content":"a"})",
      R"({"unknown":["a"],"content":"a"})",
      R"({"unknown":{"content":"a"},"content":"a"})",
      R"({"unknown":1,"content":"a"})",
      R"({"unknown":1,"unknown2":1,"content":"a"})",
      R"({"unknown":{"unknown2":1},"content":"a"})",
  };
  std::map<std::uint64_t, std::string> ends;
  for (const auto& list : lists) {
    const Anchors all = anchors(chat, R"({"messages":[)" + list + "]}");
    ASSERT_FALSE(all.empty()) << list;
    const auto [there, is_new] = ends.emplace(all.back().second, list);
    EXPECT_TRUE(is_new) << list << " and " << there->second;
  }
  // Anthropic's parts lie within parts.
  ends.clear();
  for (const std::string list : {
           R"({"content":[{"content":["a","b"]}]})",
           R"({"content":[{"content":["a"]},"b"]})",
           R"({"content":["a",{"content":["b"]}]})",
           R"({"content":["a","b"]})",
           R"({"content":[{"content":[{"content":["a"]},"b"]}]})",
           R"({"content":[{"content":[{"content":["a","b"]}]}]})",
           R"({"content":[{"tool_use_id":"t","content":"a"},{"tool_use_id":"u","content":"b"}]})",
           R"({"content":[{"tool_use_id":"u","content":"a"},{"tool_use_id":"t","content":"b"}]})",
           R"({"content":[{"name":"f","input":{}},{"name":"g","input":{}}]})",
           R"({"content":[{"name":"g","input":{}},{"name":"f","input":{}}]})",
       }) {
    const Anchors all = anchors(anthropic, R"({"messages":[)" + list + "]}");
    ASSERT_FALSE(all.empty()) << list;
    const auto [there, is_new] = ends.emplace(all.back().second, list);
    EXPECT_TRUE(is_new) << list << " and " << there->second;
  }
}

}  // namespace
}  // namespace weir::metrics::wire::prompt_prefix

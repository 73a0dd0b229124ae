// Engines say this of themselves, in the shapes that their sources write.
#include "proxy/fleet/replica_facts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::proxy::fleet {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto vllm_models =
    R"({"object":"list","data":[{"id":"qwen2.5-7b","object":"model","created":1779866853,"owned_by":"vllm","root":"Qwen/Qwen2.5-7B-Instruct","parent":null,"max_model_len":32768,"permission":[{"id":"modelperm-1","object":"model_permission","organization":"*"}]},{"id":"sql-lora","object":"model","created":1779866853,"owned_by":"vllm","root":"/loras/sql","parent":"qwen2.5-7b","max_model_len":null,"permission":[]}]})";
constexpr auto vllm_metrics =
    "# HELP vllm:num_requests_running Number of requests in model execution batches.\n"
    "# TYPE vllm:num_requests_running gauge\n"
    "vllm:num_requests_running{engine=\"0\",model_name=\"qwen2.5-7b\"} 0.0\n"
    "# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig\n"
    "# TYPE vllm:cache_config_info gauge\n"
    "vllm:cache_config_info{block_size=\"16\",cache_dtype=\"auto\",calculate_kv_scales=\"False\",cpu_offload_gb=\"0\","
    "enable_prefix_caching=\"True\",engine=\"0\",gpu_memory_utilization=\"0.9\",num_cpu_blocks=\"None\","
    "num_gpu_blocks=\"7716\",num_gpu_blocks_override=\"None\",sliding_window=\"None\"} 1.0\n";

Pages pages_of(std::initializer_list<std::pair<Page, std::string>> answered) {
  Pages pages;
  for (auto& answer : pages.answers) answer = {404, R"({"detail":"Not Found"})"};
  for (const auto& [page, body] : answered) pages[page] = {200, body};
  return pages;
}

using Amount = std::optional<std::uint64_t>;

ReplicaFacts facts(Engine engine, const std::string& version, const std::vector<std::string>& models,
                   Amount kv_tokens = {}, Amount max_context = {}, bool metrics = false,
                   std::optional<bool> prefix_caching = {}, Amount slots = {}) {
  ReplicaFacts all;
  all.engine = engine;
  all.version = version;
  all.models = models;
  all.kv_tokens = kv_tokens;
  all.max_context = max_context;
  all.metrics = metrics;
  all.prefix_caching = prefix_caching;
  all.slots = slots;
  return all;
}

TEST(ReplicaFacts, AreWhatEachEngineTellsOfItselfAndNothingElseIsKept) {
  const struct {
    const char* what;
    Pages pages;
    ReplicaFacts facts;
  } rows[]{
      {"vLLM",
       pages_of({{Page::models, vllm_models},
                 {Page::metrics, vllm_metrics},
                 {Page::version, R"({"version":"0.10.2"})"}}),
       facts(Engine::vllm, "0.10.2", {"qwen2.5-7b", "sql-lora"}, 7716 * 16, 32768, true, true)},
      {"vLLM by its model list alone", pages_of({{Page::models, vllm_models}}),
       facts(Engine::vllm, "", {"qwen2.5-7b", "sql-lora"}, {}, 32768)},
      {"vLLM by its metrics alone", pages_of({{Page::metrics, vllm_metrics}}),
       facts(Engine::vllm, "", {}, 7716 * 16, {}, true, true)},
      {"Aphrodite has its own names in vLLM's shapes",
       pages_of({{Page::models, R"({"data":[{"id":"m","owned_by":"pygmalionai","max_model_len":4096}]})"},
                 {Page::version, R"({"version":"0.6.7"})"},
                 {Page::metrics, "aphrodite:cache_config_info{block_size=\"16\",num_gpu_blocks=\"10\"} 1.0\n"}}),
       facts(Engine::aphrodite, "0.6.7", {"m"}, 160, 4096, true)},
      {"Aphrodite by its model list alone", pages_of({{Page::models, R"({"data":[{"id":"m","owned_by":"aphrodite"}]})"}}),
       facts(Engine::aphrodite, "", {"m"})},
      {"SGLang tells its size a rank, and its keys",
       pages_of(
           {{Page::models,
             R"({"object":"list","data":[{"id":"m","object":"model","owned_by":"sglang","root":"m","max_model_len":131072}]})"},
            {Page::model_info, R"({"model_path":"/m","tokenizer_path":"/m","is_generation":true})"},
            {Page::server_info,
             R"({"model_path":"/m","api_key":"engine-K","context_length":null,"dp_size":2,"max_total_num_tokens":65536,"internal_states":[{"api_key":"engine-K"}],"version":"0.5.12"})"}}),
       facts(Engine::sglang, "0.5.12", {"m"}, 131072, 131072)},
      {"SGLang's older pages",
       pages_of({{Page::get_model_info, R"({"model_path":"/m","is_generation":true})"},
                 {Page::get_server_info, R"({"max_total_num_tokens":9000,"context_length":4096,"version":"0.4.1"})"}}),
       facts(Engine::sglang, "0.4.1", {}, 9000, 4096)},
      {"TGI, with its batch size on metrics",
       pages_of(
           {{Page::info,
             R"({"model_id":"org/m","model_sha":"1","model_pipeline_tag":"text-generation","max_concurrent_requests":128,"max_best_of":2,"max_stop_sequences":4,"max_input_tokens":4095,"max_total_tokens":4096,"validation_workers":2,"max_client_batch_size":4,"router":"text-generation-router","version":"3.1.1","sha":"2","docker_label":null})"},
            {Page::metrics, "# TYPE tgi_x gauge\ntgi_batch_max_total_tokens 167936\n"}}),
       facts(Engine::tgi, "3.1.1", {"org/m"}, 167936, 4096, true)},
      {"TGI, older",
       pages_of(
           {{Page::info,
             R"({"model_id":"org/m","max_total_tokens":2048,"max_batch_total_tokens":32000,"version":"2.0.1"})"}}),
       facts(Engine::tgi, "2.0.1", {"org/m"}, 32000, 2048)},
      {"llama.cpp tells the context of a slot and no KV size, because slots may share it",
       pages_of(
           {{Page::props,
             R"({"default_generation_settings":{"id":0,"n_ctx":8192,"params":{"n_predict":-1}},"total_slots":4,"model_path":"m.gguf","chat_template":"{{x}}","build_info":"b6710-1d49ca37"})"},
            {Page::models,
             R"({"models":[{"name":"m.gguf"}],"object":"list","data":[{"id":"m.gguf","object":"model","created":1,"owned_by":"llamacpp","meta":{"n_ctx_train":131072}}]})"},
            {Page::ollama_tags, R"({"models":[]})"}}),
       facts(Engine::llama_cpp, "b6710-1d49ca37", {"m.gguf"}, {}, 8192, false, {}, 4)},
      {"Ollama",
       pages_of({{Page::ollama_version, R"({"version":"0.12.3"})"},
                 {Page::ollama_tags, R"({"models":[{"name":"llama3.2:3b","size":1}]})"}}),
       facts(Engine::ollama, "0.12.3", {"llama3.2:3b"})},
      {"the simulated replica",
       pages_of({{Page::models, R"({"data":[{"id":"sim-7b","owned_by":"weir-lab"}]})"}, {Page::metrics, vllm_metrics}}),
       facts(Engine::weir_sim, "", {"sim-7b"}, 7716 * 16, {}, true, true)},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    const auto found = facts_of(row.pages);
    EXPECT_EQ(found.engine, row.facts.engine) << name_of(found.engine);
    EXPECT_EQ(found.version, row.facts.version);
    EXPECT_EQ(found.models, row.facts.models);
    EXPECT_EQ(found.kv_tokens, row.facts.kv_tokens);
    EXPECT_EQ(found.max_context, row.facts.max_context);
    EXPECT_TRUE(found == row.facts) << "of slots, prefix caching and metrics";
  }
  const auto embedding = pages_of(
      {{Page::info, R"({"model_id":"org/e","model_type":{"embedding":{"pooling":"cls"}},"max_input_length":512})"}});
  EXPECT_EQ(facts_of(embedding).engine, Engine::unknown) << "it is no TGI";
  EXPECT_EQ(name_of(Engine::weir_sim), "weir-lab sim");
}

TEST(ReplicaFacts, ACacheConfigTellsItsTokensOrLeavesThemUnknown) {
  const auto blocks = [](const std::string& engine, const std::string& count) {
    return "block_size=\"16\",engine=\"" + engine + "\",num_gpu_blocks=\"" + count + '"';
  };
  const struct {
    std::vector<std::string> labels;
    Amount kv_tokens;
  } rows[]{
      {{"block_size=\"8\",kv_cache_size_tokens=\"463459\",num_gpu_blocks=\"320\""}, 463459},  // Hybrid models.
      {{blocks("0", "100"), blocks("1", "200")}, 4800},  // Data parallel engines behind one port.
      {{blocks("0", "100"), blocks("0", "100")}, 1600},
      {{"a=\"x=\\\"y\\\",num_gpu_blocks=\\\"1\\\"\",b=\"}{\",block_size=\"16\",num_gpu_blocks=\"4\""}, 64},
      {{blocks("0", "None")}, {}},
      {{blocks("0", "0")}, {}},
      {{blocks("0", "99999999999999999999")}, {}},
      {{"num_gpu_blocks=\"9\""}, {}},
      {{"block_size=\"16\""}, {}},
      {{"block_size=\"65536\",num_gpu_blocks=\"4294967296\""}, {}},
      {{"block_size=\"16"}, {}},
      {{""}, {}},
  };
  for (const auto& row : rows) {
    std::string page;
    for (const auto& labels : row.labels) page += "vllm:cache_config_info{" + labels + "} 1.0\r\n";
    EXPECT_EQ(facts_of(pages_of({{Page::metrics, page}})).kv_tokens, row.kv_tokens) << page;
  }
  const auto caching = [](const std::string& value) {
    const auto page = "vllm:cache_config_info{enable_prefix_caching=\"" + value + "\"} 1\n";
    return facts_of(pages_of({{Page::metrics, page}})).prefix_caching;
  };
  EXPECT_EQ(caching("False"), false);
  EXPECT_EQ(caching("None"), std::nullopt);
}

TEST(ReplicaFacts, WhatIsNotAnsweredOrNotWhatItShouldBeIsUnknown) {
  EXPECT_EQ(facts_of(Pages{}), ReplicaFacts{});
  EXPECT_EQ(facts_of(pages_of({})), ReplicaFacts{});
  for (const std::string body : {"", "null", "[]", "{}", "{", "\"x\"", "<html lang=\"en\"> not a page </html>",
                                 R"({"data":3,"version":7})", R"({"data":[3,{"id":7},{"id":""}],"models":{}})"}) {
    Pages pages;
    for (auto& answer : pages.answers) answer = {200, body};
    EXPECT_EQ(facts_of(pages), ReplicaFacts{}) << body;
  }
}

TEST(ReplicaFacts, NumbersThatNoReplicaHasAreNotBelieved) {
  for (const auto* number : {"-1", "0", "1.5", "\"8192\"", "99999999999", "null"}) {
    const auto facts = facts_of(pages_of(
        {{Page::models, std::string(R"({"data":[{"id":"m","owned_by":"vllm","max_model_len":)") + number + "}]}"}}));
    EXPECT_EQ(facts.max_context, std::nullopt) << number;
  }
}

TEST(ReplicaFacts, AListWithoutEndIsCut) {
  std::string list = R"({"data":[)";
  for (int i = 0; i < 1000; ++i) list += R"({"id":"m)" + std::to_string(i) + R"("},)";
  list.back() = ']';
  EXPECT_THAT(facts_of(pages_of({{Page::models, list + "}"}})).models, SizeIs(64));
}

TEST(ReplicaFacts, RefusalsOfEveryShapeGiveTheirMessage) {
  const struct {
    const char *body, *message;
  } refusals[]{
      {R"({"error":{"message":"no such model","type":"NotFoundError","code":404}})", "no such model"},
      {R"({"object":"error","message":"bad","type":"BadRequestError","code":400})", "bad"},
      {R"({"error":"Model is overloaded","error_type":"overloaded"})", "Model is overloaded"},
      {R"({"detail":"Not Found"})", "Not Found"},
      {R"({"detail":[{"loc":["body"]}]})", ""},
      {"<html>", ""},
      {"{\"detail\":\"a\\u001b[31mb\"}", "a?[31mb"},
  };
  for (const auto& [body, message] : refusals) EXPECT_EQ(refusal_message(body), message) << body;
}

}  // namespace
}  // namespace weir::proxy::fleet

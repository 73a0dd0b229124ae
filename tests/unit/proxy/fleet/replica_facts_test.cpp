// Engines say this of themselves, in the shapes that their sources write.
#include "proxy/fleet/replica_facts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::proxy::fleet {
namespace {

using ::testing::ElementsAre;
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

ReplicaFacts facts_of(const Pages& pages) { return fleet::facts_of(pages, config::EngineNames{}); }

ReplicaFacts facts_of_metrics(const std::string& text) { return facts_of(pages_of({{Page::metrics, text}})); }

TEST(ReplicaFacts, VllmTellsModelsContextVersionAndKvTokens) {
  const auto facts = facts_of(pages_of(
      {{Page::models, vllm_models}, {Page::metrics, vllm_metrics}, {Page::version, R"({"version":"0.10.2"})"}}));
  EXPECT_EQ(facts.engine, Engine::vllm);
  EXPECT_EQ(facts.version, "0.10.2");
  EXPECT_THAT(facts.models, ElementsAre("qwen2.5-7b", "sql-lora"));
  EXPECT_EQ(facts.max_context, 32768u);
  EXPECT_EQ(facts.kv_tokens, 7716u * 16);
  EXPECT_EQ(facts.prefix_caching, true);
  EXPECT_TRUE(facts.metrics);
}

TEST(ReplicaFacts, VllmIsToldByItsModelListAloneAndByItsMetricsAlone) {
  EXPECT_EQ(facts_of(pages_of({{Page::models, vllm_models}})).engine, Engine::vllm);
  EXPECT_EQ(facts_of_metrics(vllm_metrics).engine, Engine::vllm);
}

TEST(ReplicaFacts, TheSizeInTokensIsBelievedBeforeBlocksBecauseHybridModelsHaveSeveralKindsOfThem) {
  const auto facts = facts_of_metrics(
      "vllm:cache_config_info{block_size=\"8\",engine=\"0\",kv_cache_size_tokens=\"463459\",num_gpu_blocks=\"320\"} "
      "1.0\n");
  EXPECT_EQ(facts.kv_tokens, 463459u);
}

TEST(ReplicaFacts, DataParallelEnginesBehindOnePortAddUpAndTheSameOneTwiceDoesNot) {
  const std::string first = "vllm:cache_config_info{block_size=\"16\",engine=\"0\",num_gpu_blocks=\"100\"} 1.0\n";
  const std::string second = "vllm:cache_config_info{block_size=\"16\",engine=\"1\",num_gpu_blocks=\"200\"} 1.0\n";
  EXPECT_EQ(facts_of_metrics(first + second).kv_tokens, 4800u);
  EXPECT_EQ(facts_of_metrics(first + first).kv_tokens, 1600u);
}

TEST(ReplicaFacts, ACacheConfigThatIsNotKnownYetLeavesTheSizeUnknown) {
  for (const auto* labels :
       {"block_size=\"16\",num_gpu_blocks=\"None\"", "block_size=\"16\",num_gpu_blocks=\"0\"", "num_gpu_blocks=\"9\"",
        "block_size=\"16\"", "block_size=\"16\",num_gpu_blocks=\"99999999999999999999\"",
        "block_size=\"65536\",num_gpu_blocks=\"4294967296\"", "block_size=\"16", ""}) {
    const auto facts = facts_of_metrics(std::string("vllm:cache_config_info{") + labels + "} 1.0\n");
    EXPECT_EQ(facts.kv_tokens, std::nullopt) << labels;
  }
}

TEST(ReplicaFacts, LabelsMayHoldBracesCommasAndEscapedQuotes) {
  const auto facts = facts_of_metrics(
      "vllm:cache_config_info{a=\"x=\\\"y\\\",num_gpu_blocks=\\\"1\\\"\",b=\"}{\",block_size=\"16\",num_gpu_blocks="
      "\"4\"} 1\r\n");
  EXPECT_EQ(facts.kv_tokens, 64u);
}

TEST(ReplicaFacts, PrefixCachingThatIsOffIsSaid) {
  EXPECT_EQ(facts_of_metrics("vllm:cache_config_info{enable_prefix_caching=\"False\"} 1\n").prefix_caching, false);
  EXPECT_EQ(facts_of_metrics("vllm:cache_config_info{enable_prefix_caching=\"None\"} 1\n").prefix_caching,
            std::nullopt);
}

TEST(ReplicaFacts, AphroditeHasItsOwnNamesInVllmsShapes) {
  const auto facts = facts_of(
      pages_of({{Page::models, R"({"data":[{"id":"m","owned_by":"pygmalionai","max_model_len":4096}]})"},
                {Page::version, R"({"version":"0.6.7"})"},
                {Page::metrics, "aphrodite:cache_config_info{block_size=\"16\",num_gpu_blocks=\"10\"} 1.0\n"}}));
  EXPECT_EQ(facts.engine, Engine::aphrodite);
  EXPECT_EQ(facts.version, "0.6.7");
  EXPECT_EQ(facts.kv_tokens, 160u);
}

TEST(ReplicaFacts, SglangTellsItsSizeARankAndNothingElseOfItsSettingsIsKept) {
  const auto pages = pages_of(
      {{Page::models,
        R"({"object":"list","data":[{"id":"m","object":"model","owned_by":"sglang","root":"m","max_model_len":131072}]})"},
       {Page::model_info, R"({"model_path":"/m","tokenizer_path":"/m","is_generation":true})"},
       {Page::server_info,
        R"({"model_path":"/m","api_key":"engine-K","context_length":null,"dp_size":2,"max_total_num_tokens":65536,"internal_states":[{"api_key":"engine-K"}],"version":"0.5.12"})"}});
  const auto facts = facts_of(pages);
  ReplicaFacts expected;
  expected.engine = Engine::sglang;
  expected.version = "0.5.12";
  expected.models = {"m"};
  expected.kv_tokens = 131072;
  expected.max_context = 131072;
  EXPECT_EQ(facts, expected);
}

TEST(ReplicaFacts, SglangsOlderPagesAreReadToo) {
  const auto facts = facts_of(
      pages_of({{Page::get_model_info, R"({"model_path":"/m","is_generation":true})"},
                {Page::get_server_info, R"({"max_total_num_tokens":9000,"context_length":4096,"version":"0.4.1"})"}}));
  EXPECT_EQ(facts.engine, Engine::sglang);
  EXPECT_EQ(facts.version, "0.4.1");
  EXPECT_EQ(facts.kv_tokens, 9000u);
  EXPECT_EQ(facts.max_context, 4096u);
}

TEST(ReplicaFacts, TgiTellsAllOnOnePageAndItsBatchSizeOnMetricsWhereThePageHasItNoMore) {
  const std::string info =
      R"({"model_id":"org/m","model_sha":"1","model_pipeline_tag":"text-generation","max_concurrent_requests":128,"max_best_of":2,"max_stop_sequences":4,"max_input_tokens":4095,"max_total_tokens":4096,"validation_workers":2,"max_client_batch_size":4,"router":"text-generation-router","version":"3.1.1","sha":"2","docker_label":null})";
  const auto facts = facts_of(
      pages_of({{Page::info, info}, {Page::metrics, "# TYPE tgi_x gauge\ntgi_batch_max_total_tokens 167936\n"}}));
  EXPECT_EQ(facts.engine, Engine::tgi);
  EXPECT_EQ(facts.version, "3.1.1");
  EXPECT_THAT(facts.models, ElementsAre("org/m"));
  EXPECT_EQ(facts.max_context, 4096u);
  EXPECT_EQ(facts.kv_tokens, 167936u);

  const auto older = facts_of(
      pages_of({{Page::info,
                 R"({"model_id":"org/m","max_total_tokens":2048,"max_batch_total_tokens":32000,"version":"2.0.1"})"}}));
  EXPECT_EQ(older.kv_tokens, 32000u);
  EXPECT_FALSE(older.metrics);
}

TEST(ReplicaFacts, AnEmbeddingServersInfoIsNotTgi) {
  const auto facts = facts_of(pages_of(
      {{Page::info, R"({"model_id":"org/e","model_type":{"embedding":{"pooling":"cls"}},"max_input_length":512})"}}));
  EXPECT_EQ(facts.engine, Engine::unknown);
}

TEST(ReplicaFacts, LlamaCppTellsTheContextOfASlotAndNoKvSizeBecauseSlotsMayShareIt) {
  const auto facts = facts_of(pages_of(
      {{Page::props,
        R"({"default_generation_settings":{"id":0,"n_ctx":8192,"params":{"n_predict":-1}},"total_slots":4,"model_path":"m.gguf","chat_template":"{{x}}","build_info":"b6710-1d49ca37"})"},
       {Page::models,
        R"({"models":[{"name":"m.gguf"}],"object":"list","data":[{"id":"m.gguf","object":"model","created":1,"owned_by":"llamacpp","meta":{"n_ctx_train":131072}}]})"},
       {Page::ollama_tags, R"({"models":[]})"}}));
  EXPECT_EQ(facts.engine, Engine::llama_cpp);
  EXPECT_EQ(facts.version, "b6710-1d49ca37");
  EXPECT_THAT(facts.models, ElementsAre("m.gguf"));
  EXPECT_EQ(facts.max_context, 8192u);
  EXPECT_EQ(facts.slots, 4u);
  EXPECT_EQ(facts.kv_tokens, std::nullopt);
}

TEST(ReplicaFacts, OllamaIsToldByItsOwnTwoPages) {
  const auto facts = facts_of(pages_of({{Page::ollama_version, R"({"version":"0.12.3"})"},
                                        {Page::ollama_tags, R"({"models":[{"name":"llama3.2:3b","size":1}]})"}}));
  EXPECT_EQ(facts.engine, Engine::ollama);
  EXPECT_EQ(facts.version, "0.12.3");
  EXPECT_THAT(facts.models, ElementsAre("llama3.2:3b"));
}

TEST(ReplicaFacts, TheSimulatedReplicaIsCalledSo) {
  const auto facts = facts_of(
      pages_of({{Page::models, R"({"data":[{"id":"sim-7b","owned_by":"weir-lab"}]})"}, {Page::metrics, vllm_metrics}}));
  EXPECT_EQ(facts.engine, Engine::weir_sim);
  EXPECT_EQ(name_of(facts.engine), "weir-lab sim");
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

TEST(ReplicaFacts, TextOfAReplicaCannotWriteToTheTerminal) {
  EXPECT_EQ(printable("qwen 2.5~"), "qwen 2.5~");
  EXPECT_EQ(printable("a\x1b[2Jb\r\n\x7f\xc2\x9b"), "a?[2Jb?????");
  EXPECT_THAT(printable(std::string(1000, 'x')), SizeIs(128));
  EXPECT_THAT(printable(""), IsEmpty());
}

}  // namespace
}  // namespace weir::proxy::fleet

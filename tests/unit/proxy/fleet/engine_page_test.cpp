// Pages of the engines, in the names of their sources: what weir takes from each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "proxy/fleet/engine_page.hpp"

namespace weir::proxy::fleet {
namespace {

EnginePage page_of(std::string_view text) { return read_engine_page(text); }

EngineLoad load_of(std::string_view text) { return page_of(text).load; }

using Figure = std::optional<double>;

EngineLoad load(Figure running, Figure waiting, Figure kv_usage, Figure queries, Figure hits) {
  EngineLoad all;
  all.running = running;
  all.waiting = waiting;
  all.kv_usage = kv_usage;
  all.prefix_queries = queries;
  all.prefix_hits = hits;
  return all;
}

TEST(EnginePage, TellsWhatEachEngineSaysInItsOwnNames) {
  const struct {
    const char* what;
    std::string text;
    Engine engine;
    std::optional<std::uint64_t> kv_tokens;
    EngineLoad load;
    double work = 0;  ///< The sum of its counters.
  } rows[]{
      {"vLLM",
       "# TYPE vllm:num_requests_running gauge\n"
       "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 7.0\n"
       "vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 3.0\n"
       "vllm:num_requests_waiting_by_reason{engine=\"0\",reason=\"capacity\"} 99.0\n"
       "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.25\n"
       "vllm:prefix_cache_queries_total{engine=\"0\",model_name=\"m\"} 5000.0\n"
       "vllm:prefix_cache_hits_total{engine=\"0\",model_name=\"m\"} 2000.0\n"
       "vllm:prompt_tokens_total{engine=\"0\",model_name=\"m\"} 900.0\n"
       "vllm:generation_tokens_total{engine=\"0\",model_name=\"m\"} 100.0\n"
       "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"0.001\"} 4.0\n"
       "vllm:cache_config_info{block_size=\"16\",enable_prefix_caching=\"True\",engine=\"0\",num_gpu_blocks=\"100\"} "
       "1.0\n",
       Engine::vllm, 1600, load(7, 3, 0.25, 5000, 2000), 1000},
      {"data parallel engines add up, and their shares are averaged",
       "vllm:num_requests_running{engine=\"0\"} 7\nvllm:num_requests_running{engine=\"1\"} 5\n"
       "vllm:num_requests_waiting{engine=\"0\"} 0\nvllm:num_requests_waiting{engine=\"1\"} 2\n"
       "vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.75\n",
       Engine::vllm,
       {},
       load(12, 2, 0.5, {}, {})},
      {"an old name of vLLM's", "vllm:gpu_cache_usage_perc 0.5\n", Engine::vllm, {}, load({}, {}, 0.5, {}, {})},
      {"an old name beside the new one",
       "vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.25\n",
       Engine::vllm,
       {},
       load({}, {}, 0.25, {}, {})},
      {"SGLang",
       "sglang:num_running_reqs{model_name=\"m\",tp_rank=\"0\",pp_rank=\"0\"} 4.0\n"
       "sglang:num_queue_reqs{model_name=\"m\",tp_rank=\"0\",pp_rank=\"0\"} 9.0\n"
       "sglang:token_usage{model_name=\"m\",tp_rank=\"0\",pp_rank=\"0\"} 0.28\n"
       "sglang:max_total_num_tokens{model_name=\"m\",tp_rank=\"0\",pp_rank=\"0\"} 65536.0\n"
       "sglang:prompt_tokens_total{model_name=\"m\"} 800.0\n"
       "sglang:generation_tokens_total{model_name=\"m\"} 200.0\n"
       "sglang:cached_tokens_total{model_name=\"m\",cache_source=\"device\"} 90.0\n"
       "sglang:cached_tokens_total{model_name=\"m\",cache_source=\"host\"} 10.0\n",
       Engine::sglang, 65536, load(4, 9, 0.28, 800, 100), 1000},
      {"ranks of one engine that tell the same count once",
       "sglang:num_running_reqs{tp_rank=\"0\",pp_rank=\"0\"} 4\n"
       "sglang:num_running_reqs{tp_rank=\"1\",pp_rank=\"0\"} 4\n"
       "sglang:num_running_reqs{tp_rank=\"0\",pp_rank=\"1\"} 4\n",
       Engine::sglang,
       {},
       load(4, {}, {}, {}, {})},
      {"ranks with requests of their own add up",
       "sglang:num_running_reqs{dp_rank=\"0\",tp_rank=\"0\"} 4\n"
       "sglang:num_running_reqs{dp_rank=\"1\",tp_rank=\"1\"} 3\n",
       Engine::sglang,
       {},
       load(7, {}, {}, {}, {})},
      {"TGI tells its batch, and the share of its cache follows",
       "tgi_queue_size 3\ntgi_batch_current_size 8\ntgi_batch_current_max_tokens 4000\ntgi_batch_max_total_tokens "
       "16000\n"
       "tgi_batch_inference_success{method=\"prefill\"} 10\ntgi_batch_inference_success{method=\"decode\"} 500\n",
       Engine::tgi, 16000, load(8, 3, 0.25, {}, {}), 510},
      {"llama.cpp counts hits and misses",
       "llamacpp:prompt_tokens_total 300\nllamacpp:prompt_tokens_cached_total 100\nllamacpp:tokens_predicted_total 50\n"
       "llamacpp:requests_processing 2\nllamacpp:requests_deferred 1\nllamacpp:n_decode_total 350\n",
       Engine::llama_cpp,
       {},
       load(2, 1, {}, 400, 100),
       350},
      {"Aphrodite",
       "aphrodite:num_requests_running 2\naphrodite:num_requests_waiting 1\naphrodite:kv_cache_usage_perc 0.5\n"
       "aphrodite:prefix_cache_queries_total 400\naphrodite:prefix_cache_hits_total 100\n"
       "aphrodite:generation_tokens_total 5\n",
       Engine::aphrodite,
       {},
       load(2, 1, 0.5, 400, 100),
       5},
      {"an old name of Aphrodite's",
       "aphrodite:gpu_cache_usage_perc 0.5\n",
       Engine::aphrodite,
       {},
       load({}, {}, 0.5, {}, {})},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    const auto page = page_of(row.text);
    EXPECT_TRUE(page.is_page);
    EXPECT_EQ(page.engine, row.engine);
    EXPECT_EQ(page.kv_tokens, row.kv_tokens);
    EXPECT_EQ(page.load.running, row.load.running);
    EXPECT_EQ(page.load.waiting, row.load.waiting);
    EXPECT_TRUE(page.load == row.load) << "of shares and counters";
    double work = 0;
    for (const auto& [name, count] : page.counters) work += count;
    EXPECT_EQ(work, row.work);
  }
  EXPECT_EQ(page_of(rows[0].text).prefix_caching, true);
}

TEST(EnginePage, SaysWhetherAnEngineSleepsAndSinceWhenItRuns) {
  const std::string begin = "vllm:engine_sleep_state{engine=\"0\",sleep_state=\"";
  EXPECT_FALSE(page_of(begin + "awake\"} 1.0\n" + begin + "discard_all\"} 0.0\n").load.asleep);
  EXPECT_TRUE(page_of(begin + "awake\"} 0.0\n" + begin + "weights_offloaded\"} 1.0\n").load.asleep);
  EXPECT_TRUE(
      page_of(begin + "awake\"} 1\nvllm:engine_sleep_state{engine=\"1\",sleep_state=\"awake\"} 0\n").load.asleep);
  EXPECT_FALSE(page_of("vllm:num_requests_running 0\n").load.asleep);
  const std::string aphrodite = "aphrodite:engine_sleep_state{engine=\"0\",sleep_state=\"awake\"} ";
  EXPECT_FALSE(page_of(aphrodite + "1.0\n").load.asleep);
  EXPECT_TRUE(page_of(aphrodite + "0.0\n").load.asleep);
  EXPECT_EQ(page_of("vllm:num_requests_running 0\nprocess_start_time_seconds 1.5e9\n").started, 1.5e9);
}

TEST(EnginePage, NamesOfTheSettingsReplaceTheDefaults) {
  config::EngineNames names;
  names.running = {"my_running", "my_old_running"};
  names.kv_tokens = {"my_kv"};
  const auto page = read_engine_page("my_old_running 3\nmy_kv 1000\nvllm:num_requests_running 7\n", names);
  EXPECT_EQ(page.load.running, 3);
  EXPECT_EQ(page.kv_tokens, 1000u);
}

TEST(EnginePage, ValuesThatNoEngineHasAreUnknown) {
  for (const std::string value : {"-1", "NaN", "+Inf", "-Inf", "1e300", "none"}) {
    const auto load = load_of("vllm:num_requests_running " + value + "\nvllm:num_requests_waiting 1\n");
    EXPECT_EQ(load.running, std::nullopt) << value;
    EXPECT_EQ(load.waiting, 1) << value;
  }
  EXPECT_EQ(load_of("vllm:kv_cache_usage_perc 1.5\n").kv_usage, std::nullopt);
  for (const std::string value : {"-1", "NaN", "+Inf", "-Inf", "1e300"}) {
    const auto page = page_of("vllm:generation_tokens_total " + value + "\nvllm:prompt_tokens_total 500\n");
    EXPECT_EQ(page.counters, (Counters{{"vllm:prompt_tokens_total", 500}})) << value;
  }
  EXPECT_EQ(load_of("tgi_batch_current_max_tokens 5\ntgi_batch_max_total_tokens 0\n").kv_usage, std::nullopt);
}

TEST(EnginePage, CountersAreComparedByTheirNames) {
  const struct {
    const char* what;
    Counters first, second;
    std::optional<bool> moved;
    bool risen;
  } rows[]{
      {"none", {}, {}, {}, false},
      {"the same", {{"a", 5}, {"b", 7}}, {{"a", 5}, {"b", 7}}, false, false},
      {"one more", {{"a", 5}, {"b", 7}}, {{"a", 5}, {"b", 8}}, true, true},
      {"the first of two", {{"a", 5}, {"b", 7}}, {{"a", 6}, {"b", 7}}, true, true},
      {"one less, after a restart", {{"a", 5}, {"b", 7}}, {{"a", 5}, {"b", 1}}, true, false},
      {"one that is not told", {{"a", 5}, {"b", 7}}, {{"a", 5}}, false, false},
      {"one that is told again", {{"a", 5}}, {{"a", 5}, {"b", 7}}, false, false},
      {"none in common", {{"a", 5}}, {{"b", 7}}, {}, false},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(have_moved(row.first, row.second), row.moved) << row.what;
    auto known = row.first;
    EXPECT_EQ(have_risen(known, row.second), row.risen) << row.what;
  }
  Counters known{{"a", 5}, {"b", 7}};
  EXPECT_FALSE(have_risen(known, {{"a", 5}}));
  EXPECT_FALSE(have_risen(known, {{"a", 5}, {"b", 7}})) << "what a page lacked is as it was";
  EXPECT_TRUE(have_risen(known, {{"b", 8}}));
  EXPECT_FALSE(have_risen(known, {{"b", 8}})) << "it has risen once";
  EXPECT_FALSE(have_risen(known, {{"b", 1}}));
  EXPECT_TRUE(have_risen(known, {{"b", 2}})) << "after a restart, long before it is where it was";
}

TEST(EnginePage, WhatIsNoPageTellsNothing) {
  for (const std::string text : {"", "\n\n", "# HELP vllm:x y\n", "<html lang=\"en\"> not a page </html>", "{}",
                                 "{\"error\":\"vllm:num_requests_running 3\"}"}) {
    const auto page = page_of(text);
    EXPECT_FALSE(page.is_page) << text;
    EXPECT_EQ(page.load, EngineLoad{}) << text;
  }
  const auto other = page_of("process_cpu_seconds_total 3\n");
  EXPECT_TRUE(other.is_page);
  EXPECT_EQ(other.engine, Engine::unknown);
  EXPECT_EQ(other.load, EngineLoad{});
}

TEST(EnginePage, ALineWithoutItsEndAndLinesOfTheOtherKindAreReadToo) {
  EXPECT_EQ(load_of("vllm:num_requests_running 7").running, 7);
  EXPECT_EQ(load_of("vllm:num_requests_running 7\r\nvllm:num_requests_waiting 2\r\n").waiting, 2);
}

TEST(PageJson, HasNullForNumbersThatNothingHolds) {
  const struct {
    std::string_view json, tamed;
  } rows[]{
      {R"({"a":1,"b":[2,-3.5e2]})", R"({"a":1,"b":[2,-3.5e2]})"},
      {R"([18446744073709551615,18446744073709551616])", "[18446744073709551615,null]"},
      {R"([-9223372036854775808,-9223372036854775809])", "[-9223372036854775808,null]"},
      {R"([1e308,1e400,-1e400,123456789012345678901234567890])", "[1e308,null,null,null]"},
      {R"({"1e400":"1e400 \"1e400","c":1e400})", R"({"1e400":"1e400 \"1e400","c":null})"},
      {R"(["\\",1e400,"unfinished)", R"(["\\",null,"unfinished)"},
      {R"("\)", R"("\)"},
      {"", ""},
  };
  for (const auto& row : rows) EXPECT_EQ(without_huge_numbers(row.json), row.tamed);
}

TEST(PageJson, IsReadThoughANumberIsHuge) {
  for (const char* const huge :
       {"18446744073709551616", "1e400", "-1e400", "-9223372036854775809", "-99999999999999999999"}) {
    simdjson::dom::parser parser;
    const std::string page = std::string(R"({"seed":)") + huge + R"(,"tokens":100})";
    std::uint64_t tokens = 0;
    EXPECT_FALSE(parse_page(parser, page)["tokens"].get(tokens)) << huge;
    EXPECT_EQ(tokens, 100u);
  }
  simdjson::dom::parser parser;
  EXPECT_TRUE(parse_page(parser, {}).error());
  EXPECT_TRUE(parse_page(parser, R"({"tokens":01})").error());
  EXPECT_TRUE(parse_page(parser, R"({"tokens":1e400)").error());
}

}  // namespace

// Engines say this of themselves, in the shapes that their sources write.

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
       pages_of(
           {{Page::models, vllm_models}, {Page::metrics, vllm_metrics}, {Page::version, R"({"version":"0.10.2"})"}}),
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
      {"Aphrodite by its model list alone",
       pages_of({{Page::models, R"({"data":[{"id":"m","owned_by":"aphrodite"}]})"}}),
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
       pages_of({{Page::info,
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

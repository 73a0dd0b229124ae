// Pages of the engines, in the names of their sources: what weir takes from each.
#include "proxy/fleet/engine_page.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>

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
       Engine::vllm, {}, load(12, 2, 0.5, {}, {})},
      {"an old name of vLLM's", "vllm:gpu_cache_usage_perc 0.5\n", Engine::vllm, {}, load({}, {}, 0.5, {}, {})},
      {"an old name beside the new one", "vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.25\n",
       Engine::vllm, {}, load({}, {}, 0.25, {}, {})},
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
       Engine::sglang, {}, load(4, {}, {}, {}, {})},
      {"ranks with requests of their own add up",
       "sglang:num_running_reqs{dp_rank=\"0\",tp_rank=\"0\"} 4\n"
       "sglang:num_running_reqs{dp_rank=\"1\",tp_rank=\"1\"} 3\n",
       Engine::sglang, {}, load(7, {}, {}, {}, {})},
      {"TGI tells its batch, and the share of its cache follows",
       "tgi_queue_size 3\ntgi_batch_current_size 8\ntgi_batch_current_max_tokens 4000\ntgi_batch_max_total_tokens "
       "16000\n"
       "tgi_batch_inference_success{method=\"prefill\"} 10\ntgi_batch_inference_success{method=\"decode\"} 500\n",
       Engine::tgi, 16000, load(8, 3, 0.25, {}, {}), 510},
      {"llama.cpp counts hits and misses",
       "llamacpp:prompt_tokens_total 300\nllamacpp:prompt_tokens_cached_total 100\nllamacpp:tokens_predicted_total 50\n"
       "llamacpp:requests_processing 2\nllamacpp:requests_deferred 1\nllamacpp:n_decode_total 350\n",
       Engine::llama_cpp, {}, load(2, 1, {}, 400, 100), 350},
      {"Aphrodite",
       "aphrodite:num_requests_running 2\naphrodite:num_requests_waiting 1\naphrodite:kv_cache_usage_perc 0.5\n"
       "aphrodite:prefix_cache_queries_total 400\naphrodite:prefix_cache_hits_total 100\n"
       "aphrodite:generation_tokens_total 5\n",
       Engine::aphrodite, {}, load(2, 1, 0.5, 400, 100), 5},
      {"an old name of Aphrodite's", "aphrodite:gpu_cache_usage_perc 0.5\n", Engine::aphrodite, {},
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
  EXPECT_TRUE(page_of(begin + "awake\"} 1\nvllm:engine_sleep_state{engine=\"1\",sleep_state=\"awake\"} 0\n").load.asleep);
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

}  // namespace
}  // namespace weir::proxy::fleet

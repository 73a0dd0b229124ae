// The names under which engines show their figures on their metrics pages.
#pragma once

#include <string>
#include <vector>

namespace weir::config {

/// Of each list, the first name that is on the page counts, and its lines are added up. The names are those of vLLM,
/// Aphrodite, SGLang, TGI and llama.cpp.
struct EngineNames {
  std::vector<std::string> running{"vllm:num_requests_running", "aphrodite:num_requests_running",
                                   "sglang:num_running_reqs", "tgi_batch_current_size", "llamacpp:requests_processing"};
  std::vector<std::string> waiting{"vllm:num_requests_waiting", "aphrodite:num_requests_waiting",
                                   "sglang:num_queue_reqs", "tgi_queue_size", "llamacpp:requests_deferred"};
  std::vector<std::string> kv_usage{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc",
                                    "aphrodite:kv_cache_usage_perc", "aphrodite:gpu_cache_usage_perc",
                                    "sglang:token_usage", "llamacpp:kv_cache_usage_ratio"};
  std::vector<std::string> kv_used_tokens{"tgi_batch_current_max_tokens"};
  std::vector<std::string> kv_tokens{"sglang:max_total_num_tokens", "tgi_batch_max_total_tokens"};
  std::vector<std::string> prefix_queries{"vllm:prefix_cache_queries_total", "vllm:prefix_cache_queries",
                                          "vllm:gpu_prefix_cache_queries_total",
                                          "aphrodite:prefix_cache_queries_total", "sglang:prompt_tokens_total"};
  std::vector<std::string> prefix_hits{"vllm:prefix_cache_hits_total", "vllm:prefix_cache_hits",
                                       "vllm:gpu_prefix_cache_hits_total", "aphrodite:prefix_cache_hits_total",
                                       "sglang:cached_tokens_total", "llamacpp:prompt_tokens_cached_total"};
  /// With the hits they are the queries, where the engine counts no queries.
  std::vector<std::string> prefix_misses{"llamacpp:prompt_tokens_total"};
  /// Counters that move while the engine works. Those on the page are added up.
  std::vector<std::string> counters{"vllm:prompt_tokens_total",      "vllm:generation_tokens_total",
                                    "aphrodite:prompt_tokens_total", "aphrodite:generation_tokens_total",
                                    "sglang:prompt_tokens_total",    "sglang:generation_tokens_total",
                                    "tgi_batch_inference_success",   "llamacpp:n_decode_total"};
};

inline const EngineNames engine_names;

}  // namespace weir::config

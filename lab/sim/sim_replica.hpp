// `weir-lab sim` is an HTTP server that behaves like an inference replica, with lab/engine/engine_model.hpp in the
// place of a GPU.
//
// The server has one thread. It serves /v1/chat/completions and /v1/completions as vLLM does, /generate and
// /generate_stream as TGI does, and /v1/models, /health, /metrics, /reset_prefix_cache and /flush_cache. Each sequence
// and step is one write: one token, or several with speculative decoding.
#pragma once

#include <cstdint>
#include <string>

#include "lab/engine/cache_report.hpp"
#include "lab/engine/engine_model.hpp"

namespace weir::lab::sim {

/// The engine whose names /metrics uses; every route is served either way.
enum class EngineNames { vllm, tgi };

struct SimSettings {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8001;  ///< 0 lets the system choose; the line on standard output says which.
  std::string model = "sim-7b";
  std::uint64_t seed = 1;
  EngineNames engine = EngineNames::vllm;
  engine::EngineSettings model_settings;
  engine::CacheReport cache_report = engine::CacheReport::exact;
  bool thoughts = false;  ///< Later prompts do not repeat all that was made for an answer: see add_answer().
  std::string log;  ///< The truth of every request goes there as JSON lines; "" means none, "-" standard output.
};

/// Serves until SIGINT or SIGTERM, then stops at once. Throws std::runtime_error with a sentence if it cannot listen or
/// open its log.
void run_sim(const SimSettings& settings);

}  // namespace weir::lab::sim

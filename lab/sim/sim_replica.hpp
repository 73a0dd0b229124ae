// `weir-lab sim`: an HTTP server that behaves like an inference replica, with lab/engine/engine_model.hpp in the place of a
// GPU.
//
// One thread. Serves /v1/chat/completions and /v1/completions as vLLM does, /generate and /generate_stream as TGI does,
// and /v1/models, /health, /metrics. One write a sequence and step: one token, or several with speculative decoding.
#pragma once

#include <cstdint>
#include <string>

#include "lab/engine/engine_model.hpp"

namespace weir::lab::sim {

/// Whose names /metrics speaks; every route is served either way.
enum class EngineNames { vllm, tgi };

struct SimSettings {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8001;  ///< 0 lets the system choose; the line on standard output says which.
  std::string model = "sim-7b";
  std::uint64_t seed = 1;
  EngineNames engine = EngineNames::vllm;
  engine::EngineSettings model_settings;
  std::string log;  ///< The truth of every request, JSON lines; "" = none, "-" = standard output.
};

/// Serves until SIGINT or SIGTERM, then stops at once. Returns the exit status: 0, or 1 with a sentence on standard
/// error where it cannot listen or open its log.
int run_sim(const SimSettings& settings);

}  // namespace weir::lab::sim

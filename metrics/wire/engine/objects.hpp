// Objects in which an engine tells of its own work on a request, wherever a dialect has them: llama.cpp's `timings` and
// vLLM's `metrics`. Only for the dialects' own files.
#pragma once

#include "metrics/wire/json/on_demand.hpp"

namespace weir::metrics::wire {

/// llama.cpp's `timings` (tools/server/server-task.cpp): milliseconds, counts so far. The prompt is prompt_n + cache_n.
struct Timings {
  std::optional<std::uint64_t> predicted, prompt_read, prompt_cached;
  EngineFigures figures;

  std::optional<std::uint64_t> prompt() const {
    if (!prompt_read) return std::nullopt;
    return *prompt_read + prompt_cached.value_or(0);
  }
};
bool read_timings(simdjson::ondemand::object timings, Timings& into);

/// vLLM's `metrics` (docs/features/per_request_metrics.md): milliseconds. Its time to first token begins when the
/// request is scheduled, as vLLM's prefill time does; with the queue before it, it is what others call by that name.
bool read_request_metrics(simdjson::ondemand::value& metrics, EngineFigures& into);

}  // namespace weir::metrics::wire

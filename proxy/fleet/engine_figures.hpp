// The figures that an engine reports of itself and of its load, as last read. The watcher publishes them; the metrics
// page and /api/live show them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "metrics/moment.hpp"

namespace weir::proxy::fleet {

enum class Engine : std::uint8_t { unknown, vllm, aphrodite, sglang, tgi, llama_cpp, ollama, weir_sim };
std::string_view name_of(Engine engine);

/// The figures of one reading of the engine's metrics page. A figure that is absent is unknown.
struct EngineLoad {
  std::optional<double> running, waiting;             ///< Requests.
  std::optional<double> kv_usage;                     ///< The part of the KV cache in use, 0 to 1.
  std::optional<double> prefix_queries, prefix_hits;  ///< Counters, in tokens.
  /// running + waiting less the requests that weir had in flight there when the page came.
  std::optional<double> divergence;
  bool asleep = false;           ///< vLLM and Aphrodite say whether they sleep; then they have no cache.
  metrics::Moment at{};          ///< The page came then.
  /// The latest page came then on which a counter of the engine's work was higher than before.
  metrics::Moment moved = metrics::Moment::min();
  metrics::Moment good_until{};  ///< Two intervals later it is stale.

  bool operator==(const EngineLoad&) const = default;
};

struct EngineFigures {
  // Facts that stay until the engine tells otherwise, is down, or is another.
  Engine engine = Engine::unknown;
  std::string version,
      model;  ///< Printable and bounded; "" means unknown. `model` is the first that it serves.
  std::optional<std::uint64_t> kv_tokens, max_context;

  std::optional<EngineLoad> load;
  std::optional<std::chrono::duration<double>> reading_took;  ///< The last page took so long, whether it came or not.

  /// Returns the load, unless it is unknown or stale.
  const EngineLoad* load_at(metrics::Moment now) const { return load && now <= load->good_until ? &*load : nullptr; }
};

}  // namespace weir::proxy::fleet

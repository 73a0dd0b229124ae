// What an engine tells of itself and of its load, as weir last read it. The prober publishes it; the metrics page,
// /api/replicas and `weir status` show it.
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

/// What one reading of the engine's metrics page told. A figure that is absent is unknown.
struct EngineLoad {
  std::optional<double> running, waiting;             ///< They are requests.
  std::optional<double> kv_usage;                     ///< So much of the KV cache is in use, 0 to 1.
  std::optional<double> prefix_queries, prefix_hits;  ///< They are counters, in tokens.
  std::optional<double> counters;                     ///< It is a sum of counters. If it moves, the engine works.
  /// It is running + waiting less what weir had in flight there when the page came.
  std::optional<double> divergence;
  metrics::Moment at{};          ///< The page came then.
  /// The latest page whose counters were higher than those of the page before it came then.
  metrics::Moment moved = metrics::Moment::min();
  metrics::Moment good_until{};  ///< Two intervals later it is stale.

  bool operator==(const EngineLoad&) const = default;
};

struct EngineFigures {
  // These stay until the engine tells otherwise, is down, or is another.
  Engine engine = Engine::unknown;
  std::string version,
      model;  ///< They are printable and bounded; "" means unknown. `model` is the first that it serves.
  std::optional<std::uint64_t> kv_tokens, max_context;

  std::optional<EngineLoad> load;
  std::optional<std::chrono::duration<double>> reading_took;  ///< The last page took so long, whether it came or not.

  /// Returns the load, unless it is unknown or stale.
  const EngineLoad* load_at(metrics::Moment now) const { return load && now <= load->good_until ? &*load : nullptr; }
};

}  // namespace weir::proxy::fleet

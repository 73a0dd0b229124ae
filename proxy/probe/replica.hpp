// Asks one replica all that `weir check --probe` tells of it, and has it stream a short answer two or three times.
//
// Blocks; one thread a replica. What it costs the replica: eleven GETs, and at most three requests of some 100 prompt
// and 16 output tokens. The only credential sent is the replica's api_key, and no report says it.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "config/settings.hpp"
#include "metrics/record/request_record.hpp"
#include "proxy/probe/facts.hpp"

namespace weir::proxy::probe {

/// One streamed answer, in the figures weir would export of it (metrics::figures_of).
struct ProbedStream {
  metrics::Api api = metrics::Api::other;
  metrics::record::Figures figures;
  std::optional<std::uint64_t> prompt_tokens, cached_tokens, output_tokens;
  std::uint32_t token_events = 0;
  metrics::TokenSource token_source = metrics::TokenSource::none;
  metrics::TokensPerEvent tokens_per_event = metrics::TokensPerEvent::unknown;
};

struct ProbeReport {
  std::string failure;  ///< Why it could not be measured: a sentence without its end; "" where it was.
  bool reachable = false;
  ReplicaFacts facts;
  std::optional<ProbedStream> first;  ///< Measured; its prompt may be new to the replica.
  std::optional<ProbedStream> again;  ///< The same request once more: what a prefix cache holds shows here.
  bool usage_refused = false;         ///< It answers only if it is not asked for usage.
  /// Usage on every chunk was asked for and came; absent where the engine is none that knows the question.
  std::optional<bool> continuous_usage;
  bool fine() const { return failure.empty(); }
};

/// What a stream is asked to tell of its tokens.
enum class UsageQuestion : std::uint8_t { none, at_end, on_every_chunk };

/// The request that is measured, in the dialect of `api` (openai_chat, openai_completions, tgi_generate,
/// llamacpp_completion). `model` "" = not named.
std::string probe_body(metrics::Api api, std::string_view model, UsageQuestion usage);

/// `stream_limit`: the most that each streamed answer may take.
ProbeReport probe_replica(const config::Settings& settings, const config::Pool& pool, const config::Replica& replica,
                          std::chrono::steady_clock::duration stream_limit);

}  // namespace weir::proxy::probe

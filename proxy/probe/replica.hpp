// Asks one replica all that `weir check --probe` tells of it, and has it stream a short answer two or three times.
//
// The probe blocks, and each replica has one thread. A replica is sent eleven GETs, and at most three requests of about
// 100 prompt and 16 output tokens. The only credential sent is the replica's api_key, and no report shows it.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/settings.hpp"
#include "metrics/record/request_record.hpp"
#include "proxy/fleet/engine_page.hpp"
#include "proxy/fleet/replica_stream.hpp"
#include "proxy/net/address.hpp"

namespace weir::proxy::probe {

/// A streamed answer, in the figures that weir would export of it (metrics::figures_of).
struct ProbedStream {
  metrics::Api api = metrics::Api::other;
  metrics::record::Figures figures;
  std::optional<std::uint64_t> prompt_tokens, cached_tokens, output_tokens;
  std::uint32_t token_events = 0;
  metrics::TokenSource token_source = metrics::TokenSource::none;
  metrics::TokensPerEvent tokens_per_event = metrics::TokensPerEvent::unknown;
};

struct ProbeReport {
  std::string failure;  ///< A sentence without its end: why no answer could be measured; "" if one was.
  bool reachable = false;
  fleet::ReplicaFacts facts;
  std::optional<ProbedStream> first;  ///< The prompt may be new to the replica.
  std::optional<ProbedStream> again;  ///< The same request once more: a prefix cache shows here.
  bool usage_refused = false;         ///< The replica answers only if it is not asked for usage.
  /// True if usage on every chunk was asked for and came; absent if the engine does not know the question.
  std::optional<bool> continuous_usage;
  bool fine() const { return failure.empty(); }
};

/// Says what a stream is asked to report of its tokens.
enum class UsageQuestion : std::uint8_t { none, at_end, on_every_chunk };

/// Returns the request that is measured, in the dialect of `api` (openai_chat, openai_completions, tgi_generate,
/// llamacpp_completion). With `model` "" the request names none.
std::string probe_body(metrics::Api api, std::string_view model, UsageQuestion usage);

/// Probes a replica. `stream_limit` is the most that each streamed answer may take.
ProbeReport probe_replica(const config::Settings& settings, const config::Pool& pool, const config::Replica& replica,
                          std::chrono::steady_clock::duration stream_limit);

// Sends one request to a replica and reads its answer, on a connection of its own. It blocks, and each step has a time
// limit. Its moments come from the same clock as the data path's, so that the probe measures what weir would measure.

struct ProbeLimits {
  std::chrono::steady_clock::duration connect;
  std::chrono::steady_clock::duration answer;  ///< From the connection to the end of the answer.
};

/// Where a replica is, and the other addresses of its name.
struct Addresses {
  net::Destination first;
  std::vector<net::Address> others;
};

/// Returns the url's path, or the addresses of its host, or a sentence that says why there is none. It abandons a
/// look-up that takes longer than `limit`.
std::variant<Addresses, std::string> addresses_of(const config::ReplicaUrl& url,
                                                  const std::optional<config::ListenAddress>& nameserver,
                                                  std::chrono::steady_clock::duration limit);

/// The address that was tried last comes first from then on.
fleet::QuestionResult exchange_with(Addresses& to, const config::ReplicaUrl& url, const fleet::Question& question,
                                    const ProbeLimits& limits, config::ReadClock clock, fleet::AnswerReader& reader);

}  // namespace weir::proxy::probe

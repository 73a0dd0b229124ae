// The closed sets of words that labels and log fields take (MEASUREMENT.md, sections 2 and 4). Each enum has its
// words in a table beside it, in order, so that `name_of` is an index and a label can be resolved once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weir::metrics {

/// No request has more tokens than this; a replica that says so is not believed, lest a counter wrap.
inline constexpr std::uint64_t most_tokens = std::uint64_t{1} << 32;

/// The API a request speaks, told by its path and shape.
enum class Api : std::uint8_t {
  openai_chat,
  openai_completions,
  openai_responses,
  anthropic_messages,
  tgi_generate,
  sglang_generate,
  llamacpp_completion,
  kobold_generate,
  ollama_chat,
  ollama_generate,
  other,  ///< Relayed, and measured as far as bytes allow.
};
inline constexpr std::array<std::string_view, 11> api_names{"openai.chat",
                                                            "openai.completions",
                                                            "openai.responses",
                                                            "anthropic.messages",
                                                            "tgi.generate",
                                                            "sglang.generate",
                                                            "llamacpp.completion",
                                                            "kobold.generate",
                                                            "ollama.chat",
                                                            "ollama.generate",
                                                            "other"};

/// How a request ended. Every request has exactly one outcome: the first cause wins.
enum class Outcome : std::uint8_t {
  ok,
  ok_empty,        ///< Complete, and without one token event.
  upstream_error,  ///< Status >= 500, or an in-band error: HTTP 200 is not success. Also: a redirect of an
                   ///< inference route, no connection.
  upstream_reset,  ///< The connection broke before the answer was whole.
  truncated,       ///< The answer ended in good order, but not complete.
  timeout,
  replica_refused,  ///< 408, 429, 503; and 401, 403, 404 of a replica of which another one has lately shown that it
                    ///< errs.
  client_error,     ///< Any other 4xx of the replica.
  client_abort,     ///< Split by phase.
  rejected,         ///< Refused by weir.
  bad_request,      ///< Refused by weir: not a request it can serve.
};
inline constexpr std::array<std::string_view, 11> outcome_names{
    "ok",           "ok_empty",     "upstream_error", "upstream_reset", "truncated", "timeout", "replica_refused",
    "client_error", "client_abort", "rejected",       "bad_request"};

/// Where a request was when its client left.
enum class Phase : std::uint8_t { queue, prefill, decode };
inline constexpr std::array<std::string_view, 3> phase_names{"queue", "prefill", "decode"};

/// What told that an answer was complete.
enum class Completeness : std::uint8_t { none, marker, finish, framing, eof };
inline constexpr std::array<std::string_view, 5> completeness_names{"none", "marker", "finish", "framing", "eof"};

/// Where the number of output tokens comes from.
enum class TokenSource : std::uint8_t {
  none,    ///< Not known.
  usage,   ///< The engine's usage object or its native counters.
  events,  ///< Counted: a format with exactly one token an event (TGI native).
};
inline constexpr std::array<std::string_view, 3> token_source_names{"none", "usage", "events"};

/// Where the number of tokens in an event (k) comes from.
enum class TokensPerEvent : std::uint8_t { unknown, wire, settled };
inline constexpr std::array<std::string_view, 3> tokens_per_event_names{"unknown", "wire", "settled"};

/// Whether a replica takes requests.
enum class ReplicaState : std::uint8_t {
  up,
  starting,  ///< It is new or has come back, and may hold only what it has shown to manage.
  draining,  ///< It finishes what it has.
  ejected,   ///< Its requests failed; it is out for a time.
  down,      ///< It refuses connections, or its probes fail.
};
inline constexpr std::array<std::string_view, 5> replica_state_names{"up", "starting", "draining", "ejected", "down"};

constexpr std::string_view name_of(Api v) { return api_names[static_cast<std::size_t>(v)]; }
constexpr std::string_view name_of(Outcome v) { return outcome_names[static_cast<std::size_t>(v)]; }
constexpr std::string_view name_of(Phase v) { return phase_names[static_cast<std::size_t>(v)]; }
constexpr std::string_view name_of(Completeness v) { return completeness_names[static_cast<std::size_t>(v)]; }
constexpr std::string_view name_of(TokenSource v) { return token_source_names[static_cast<std::size_t>(v)]; }
constexpr std::string_view name_of(TokensPerEvent v) { return tokens_per_event_names[static_cast<std::size_t>(v)]; }
constexpr std::string_view name_of(ReplicaState v) { return replica_state_names[static_cast<std::size_t>(v)]; }

}  // namespace weir::metrics

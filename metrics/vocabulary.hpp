// The closed sets of words that labels and log fields take (docs/reference/metrics.md). Each enum has its words
// in a table beside it, in order, so that `name_of` is an index and a label can be resolved once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "metrics/hash.hpp"

namespace weir::metrics {

/// No request has more tokens than this. A replica that reports more is not believed, because a counter might wrap.
inline constexpr std::uint64_t most_tokens = std::uint64_t{1} << 32;
inline constexpr bool believable(std::uint64_t tokens) { return tokens > 0 && tokens <= most_tokens; }

/// The API that a request speaks. Its path and shape tell it.
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
  // APIs that generate nothing: their answers have no output tokens.
  openai_embeddings,
  rerank,
  score,
  other,  ///< The request is relayed, and measured as far as its bytes allow.
};
inline constexpr std::array<std::string_view, 14> api_names{"openai.chat",
                                                            "openai.completions",
                                                            "openai.responses",
                                                            "anthropic.messages",
                                                            "tgi.generate",
                                                            "sglang.generate",
                                                            "llamacpp.completion",
                                                            "kobold.generate",
                                                            "ollama.chat",
                                                            "ollama.generate",
                                                            "openai.embeddings",
                                                            "rerank",
                                                            "score",
                                                            "other"};

/// True if answers are generated token by token, and weir reads them.
constexpr bool generates(Api api) { return api < Api::openai_embeddings; }

/// How a request ended. Every request has exactly one outcome: the first cause wins.
enum class Outcome : std::uint8_t {
  ok,
  ok_empty,        ///< The answer was complete, with status 2xx, and had no token, or was no JSON where JSON was due.
  upstream_error,  ///< The status was >= 500 and not 501, or 424, or the answer held an in-band error (HTTP 200 is no
                   ///< success), or an inference route was redirected, or no connection was made.
  upstream_reset,  ///< The connection broke before the answer was whole.
  truncated,       ///< The answer ended in good order, but it was not complete.
  timeout,
  replica_refused,  ///< The replica answered 408, 429 or 503, or so in band; or 401, 403, 404 or 501 where another
                    ///< replica has lately shown that this one errs.
  client_error,     ///< The replica answered with any other 4xx, or 501, or with an in-band error that stands for one.
  client_abort,     ///< Split by phase.
  rejected,         ///< weir refused the request, or cut it because limits.drain was over.
  bad_request,      ///< weir refused the request because it cannot serve such a request.
};
inline constexpr std::array<std::string_view, 11> outcome_names{
    "ok",           "ok_empty",     "upstream_error", "upstream_reset", "truncated", "timeout", "replica_refused",
    "client_error", "client_abort", "rejected",       "bad_request"};

/// Says where a request was when its client left, or when limits.drain cut it.
enum class Phase : std::uint8_t { queue, prefill, decode };
inline constexpr std::array<std::string_view, 3> phase_names{"queue", "prefill", "decode"};

/// Says what showed that an answer was complete.
enum class Completeness : std::uint8_t { none, marker, finish, framing, eof };
inline constexpr std::array<std::string_view, 5> completeness_names{"none", "marker", "finish", "framing", "eof"};

/// Says where the number of output tokens comes from.
enum class TokenSource : std::uint8_t {
  none,    ///< The number is not known.
  usage,   ///< The engine's usage object or its native counters told it.
  events,  ///< Events were counted: the format has exactly one token an event (TGI native).
};
inline constexpr std::array<std::string_view, 3> token_source_names{"none", "usage", "events"};
/// The request log's word where the source is `none` and weir counted what came, an event of unknown size as one token.
inline constexpr std::string_view counted_tokens_source = "counted";

/// Says where the number of tokens in an event (k) comes from.
enum class TokensPerEvent : std::uint8_t { unknown, wire, settled };
inline constexpr std::array<std::string_view, 3> tokens_per_event_names{"unknown", "wire", "settled"};

/// Why a request was sent once more.
enum class Retry : std::uint8_t {
  connect,
  reset,
  status,
  in_band_error,
  first_token,  ///< The replica gave none in time.
  hung,
  drain,  ///< The replica drains, and its time for that is over.
  stale_connection,
  injection_refused
};
inline constexpr std::array<std::string_view, 9> retry_names{"connect",          "reset", "status", "in_band_error",
                                                             "first_token",      "hung",  "drain",  "stale_connection",
                                                             "injection_refused"};

/// Whose answer a client gets, and whose is only measured.
enum class Role : std::uint8_t { primary, shadow };
inline constexpr std::array<std::string_view, 2> role_names{"primary", "shadow"};

/// Whether a replica takes requests.
enum class ReplicaState : std::uint8_t {
  up,
  starting,  ///< New or has come back, and may hold only what it has shown to manage.
  draining,  ///< Finishes what it has.
  ejected,   ///< Its requests failed; it is out for a time.
  down,      ///< Refuses connections, or its probes fail.
};
inline constexpr std::array<std::string_view, 5> replica_state_names{"up", "starting", "draining", "ejected", "down"};

constexpr std::string_view name_of(Api v) { return api_names[static_cast<std::size_t>(v)]; }
constexpr std::string_view name_of(Outcome v) { return outcome_names[static_cast<std::size_t>(v)]; }
constexpr std::string_view name_of(Phase v) { return phase_names[static_cast<std::size_t>(v)]; }
constexpr std::string_view name_of(Completeness v) { return completeness_names[static_cast<std::size_t>(v)]; }
constexpr std::string_view name_of(TokenSource v) { return token_source_names[static_cast<std::size_t>(v)]; }
constexpr std::string_view name_of(TokensPerEvent v) { return tokens_per_event_names[static_cast<std::size_t>(v)]; }
constexpr std::string_view name_of(Role v) { return role_names[static_cast<std::size_t>(v)]; }
constexpr std::string_view name_of(ReplicaState v) { return replica_state_names[static_cast<std::size_t>(v)]; }

// Names that tie a request to a replica: ids of state that a replica keeps, and members that tell sessions apart.

/// The member of a request that holds the name.
enum class NamedBy : std::uint8_t {
  stored,        ///< An id that a replica handed out: previous_response_id, a batch's input_file_id.
  conversation,  ///< An id that the client may have made up: `conversation`, or the id in SGLang's session_params.
  slot,          ///< llama.cpp's id_slot, from 0 on.
  user,
  session_id,
  safety_identifier,
  prompt_cache_key,
  nothing  ///< The member names nothing. Counts the others.
};

/// Hashes of names; 0 where the member is absent, empty or no name.
using Names = std::array<std::uint64_t, static_cast<std::size_t>(NamedBy::nothing)>;

/// The key of the hashes. All weirs have the same one, so that several of them, and one after a restart, send a name to
/// the same replica.
inline constexpr SipKey name_key{0x7765697220697320, 0x61206c6f77206461};

/// A hash of 0 stands for no name.
constexpr std::uint64_t name_of_hash(std::uint64_t hash) { return hash == 0 ? 1 : hash; }
inline std::uint64_t hash_of_name(std::string_view name) { return name_of_hash(sip_hash(name_key, name)); }

}  // namespace weir::metrics

// Builds small requests and answers as bytes: what vLLM and TGI send, and HTTP around it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/integration/peers/scripted_replica.hpp"

namespace weir::integration {

/// A streamed answer in pieces, each one a whole event with its blank line.
struct StreamScript {
  std::vector<std::string> events;  ///< All events but usage and marker.
  std::string usage;                ///< The event behind these if the request asks for usage; "" if there is none.
  std::string marker;               ///< "" if the format has none.
  std::size_t prompt_tokens = 0;
  std::size_t output_tokens = 0;  ///< Usage reports this number.
  std::size_t token_events = 0;

  std::string body(bool with_usage) const;
};

/// Returns a stream of vLLM's /v1/chat/completions: a role chunk, `tokens` - 1 chunks with text, and an empty one with
/// the finish (the EOS token). `tag` goes into every text, so that no two streams are alike.
StreamScript vllm_chat(std::size_t tokens, std::size_t prompt_tokens = 31, std::string_view tag = "w");
/// Has the usage of a stream tell so many cached tokens; nothing, as vLLM and SGLang may, without a count.
void report_cached(StreamScript& script, std::optional<std::size_t> tokens);
/// Returns a stream of vLLM's /v1/completions, which has no role chunk.
StreamScript vllm_completions(std::size_t tokens, std::size_t prompt_tokens = 5);
/// Returns a stream of TGI's /generate_stream with details: exactly one event a token, no marker.
StreamScript tgi_stream(std::size_t tokens, std::size_t prompt_tokens = 6);

inline constexpr std::string_view vllm_error =
    "data: {\"error\": {\"message\": \"engine died\", \"type\": \"InternalServerError\", \"param\": null, \"code\": "
    "500}}\n\n";

/// Returns the head of an event stream with chunked framing; `fields` are whole lines with CRLF.
std::string sse_head(std::string_view fields = "");
using tests::chunk;
using tests::last_chunk;
/// Returns a whole answer with Content-Length.
std::string answer(std::string_view status, std::string_view body, std::string_view type = "application/json",
                   std::string_view fields = "");

/// Returns a whole request with Content-Length; `fields` are whole lines with CRLF.
std::string post(std::string_view target, std::string_view body, std::string_view fields = "");
std::string get(std::string_view target, std::string_view fields = "");
/// Returns the body of a chat request that streams.
std::string chat_body(std::string_view prompt = "Say something.", std::string_view model = "m");
/// Returns the same that asks for usage itself.
std::string chat_body_with_usage(std::string_view prompt = "Say something.");
/// Returns the body of a chat request that does not stream.
std::string whole_chat_body(std::string_view prompt = "Say something.");

/// Returns what vLLM answers to a chat request that does not stream.
std::string vllm_whole_chat(std::size_t tokens, std::size_t prompt_tokens = 31);

/// True if a request that a replica received asks for usage.
bool asks_for_usage(const ReceivedRequest& request);

/// Answers as an engine does: the whole stream, each event a chunk and a write, and usage if the request asks for it.
void play(Exchange& exchange, const StreamScript& script);
/// The same, but waits for `go_on` behind the first `events`.
void play_with_pause(Exchange& exchange, const StreamScript& script, std::size_t events, Event& go_on);

/// Replicas that play this to each request, or answer each with these bytes.
ScriptedReplica::Handler plays(StreamScript script);
ScriptedReplica::Handler always(std::string bytes);

}  // namespace weir::integration

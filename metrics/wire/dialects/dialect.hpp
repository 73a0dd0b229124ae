// Dialects: all that each API has of its own on the wire, and their list.
//
// A dialect has a file in this folder, and is listed in dialect.cpp.
//
// An event is read by its shape, not by an engine's name, because fields change between releases. Requests and whole
// answers are read by tables of members, events by a function: streams bring hundreds of events a second, and a dozen
// comparisons of keys cost less than a search in a table.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "metrics/vocabulary.hpp"
#include "metrics/wire/dialects/members.hpp"
#include "metrics/wire/json/text.hpp"
#include "metrics/wire/stream/event_facts.hpp"
#include "metrics/wire/stream/sse.hpp"

namespace weir::metrics::wire {

struct OwnError {
  std::string type;  ///< Invalid_request_error, overloaded_error, upstream_error or timeout_error.
  std::string code;
  std::string message;

  /// Ends a stream that the replica broke off.
  static OwnError replica_lost(std::string_view message) {
    return {"upstream_error", "replica_lost", std::string(message)};
  }
};

/// Returns {"error":{"message","type","param":null,"code"}}.
std::string openai_error_body(unsigned status, const OwnError& error);

/// Returns the same as a framed event, which ends a stream.
std::string openai_error_event(unsigned status, const OwnError& error);

/// Says whether the answers of a route are streams.
enum class Streams : std::uint8_t {
  if_asked,         ///< If the request's `stream` is true.
  unless_declined,  ///< Unless `stream` is false.
  always,           ///< Whatever the body says.
  never
};

struct Route {
  std::string_view path;  ///< Every route is POST.
  Streams streams = Streams::if_asked;
};

/// Says what shows that a stream is complete.
enum class StreamEnd : std::uint8_t {
  marker,      ///< An event says so.
  whole_json,  ///< The end of the body completes it, unless the last event is JSON that is cut off.
  any          ///< The end of the body completes it.
};

struct Dialect {
  Api api;

  // Requests.
  std::span<const Route> routes;
  std::span<const RequestMember> request_members{};  ///< On top of those of all dialects (members.cpp).
  bool (*greedy)(const Sampling& asked) = greedy_by_temperature;
  /// Tells by a request's members to which of the dialects that share a route it belongs; null if none shares it.
  Api (*told_by_sources)(RequestSources there) = nullptr;
  RequestSources foreign_sources = 0;  ///< Members of another dialect on the same route, which do not count.
  bool has_sampling_params = false;    ///< The request says in `sampling_params` how to sample.
  bool continues_prompt = true;        ///< The answer continues the prompt, so an engine may reuse a prefix of it.
  bool renders_prompt = false;         ///< A prompt of text goes through a template too.
  bool takes_stream_options = false;   ///< A stream reports usage and timings if the request asks for them
                                       ///< (request/edits.hpp).

  // Streams.
  Framing framing = Framing::events;
  /// Reads the data of an event that is neither an end marker nor blank. Returns false if it is not the JSON it should
  /// be.
  bool (*read_event)(std::string_view data, EventFacts& facts);
  bool done_ends_stream = true;  ///< `[DONE]` ends a stream, whatever else does.
  StreamEnd end = StreamEnd::marker;
  bool marks_each_prompt = false;  ///< In a list of prompts each prompt ends with the end marker.

  // Whole answers.
  std::span<const AnswerMember> answer_members{};
  std::span<const AnswerFigures> answer_figures{};

  // Writers of weir's own errors: as an answer's body, and as the last event of a stream, framed.
  std::string (*error_body)(unsigned status, const OwnError& error) = openai_error_body;
  std::string (*error_event)(unsigned status, const OwnError& error) = openai_error_event;

  /// Returns the dialect's route for `path`; a route without a path if it has none.
  Route route(std::string_view path) const;

  static bool greedy_by_temperature(const Sampling& asked) { return asked.temperature && *asked.temperature <= 0; }
};

const Dialect& dialect_of(Api api);

/// Tells the API by method and path (without query and prefix); `other` if no dialect has the route. TGI and SGLang
/// share /generate. Here it is TGI's, and RequestFacts::api tells by the body (`inputs`, or `text` and `input_ids`).
Api api_of(std::string_view method, std::string_view path);
/// Returns true for the requests by which operators empty an engine's prefix cache, or have the engine sleep or wake.
bool empties_cache(std::string_view method, std::string_view path);

/// Reads an event's data. 64 bytes behind it must be readable. It uses one parser per thread.
void read_event(Api api, std::string_view data, EventFacts& facts);

/// True if the data is one whole JSON document or the end marker. An event without a blank line counts only then.
bool whole_event(std::string_view data);

}  // namespace weir::metrics::wire

// The table of all dialects. A new dialect is a file beside this one, a word in metrics/vocabulary.hpp, and its name
// here, twice.

namespace weir::metrics::wire::dialects {

extern const Dialect openai_chat, openai_completions, openai_responses, anthropic_messages, tgi_generate,
    sglang_generate, llamacpp_completion, kobold_generate, ollama_chat, ollama_generate, openai_embeddings, rerank,
    score, other;

/// All dialects, in the order of Api. The first of several on a route gets it.
inline constexpr std::array<const Dialect*, api_names.size()> all{&openai_chat,
                                                                  &openai_completions,
                                                                  &openai_responses,
                                                                  &anthropic_messages,
                                                                  &tgi_generate,
                                                                  &sglang_generate,
                                                                  &llamacpp_completion,
                                                                  &kobold_generate,
                                                                  &ollama_chat,
                                                                  &ollama_generate,
                                                                  &openai_embeddings,
                                                                  &rerank,
                                                                  &score,
                                                                  &other};

}  // namespace weir::metrics::wire::dialects

// Reads a string of text that an event brings, where a dialect need not look at the rest of the event first.

namespace weir::metrics::wire {

/// Counts the text of a value that is a string, adds it to the event's content, and sets `any` if there is some.
/// Returns false if the value is broken.
inline bool read_content(simdjson::ondemand::value& value, EventFacts& facts, ContentPart::What what, bool& any) {
  std::string_view text;
  if (!read_text(value, facts.output_chars, any, text)) return false;
  facts.add_content(what, text);
  return true;
}

// Tells whether the choices of an OpenAI event bring anything. It is called only for the few events that bring no token
// and finish no choice.

/// True if every choice is empty: it has no text, no role, no finish, and no member that weir does not know. With
/// `but_a_role` it may have a role. `data` is as for read_event.
bool choices_bring_nothing(std::string_view data, bool but_a_role = false);

}  // namespace weir::metrics::wire

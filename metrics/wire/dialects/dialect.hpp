// A dialect is all that one API has of its own on the wire. It has a file in this folder, and its name in table.hpp.
//
// What an event says is told by its shape, not by an engine's name, because fields drift between releases.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "metrics/vocabulary.hpp"
#include "metrics/wire/dialects/answer_members.hpp"
#include "metrics/wire/dialects/own_error.hpp"
#include "metrics/wire/dialects/request_members.hpp"
#include "metrics/wire/stream/event_facts.hpp"
#include "metrics/wire/stream/sse.hpp"

namespace weir::metrics::wire {

/// Whether the answers of a route are streams.
enum class Streams : std::uint8_t {
  if_asked,         ///< If the request's `stream` is true.
  unless_declined,  ///< Unless it is false.
  always,           ///< Whatever the body says.
  never
};

struct Route {
  std::string_view path;  ///< All are POST.
  Streams streams = Streams::if_asked;
};

/// What tells that a stream is complete.
enum class StreamEnd : std::uint8_t {
  marker,      ///< An event says so.
  whole_json,  ///< The end of the body, unless the last event is JSON that is cut off.
  any          ///< The end of the body.
};

struct Dialect {
  Api api;

  // Requests.
  std::span<const Route> routes;
  std::span<const RequestMember> request_members{};  ///< Beside those that all have (request_members.cpp).
  bool (*greedy)(const Sampling& asked) = greedy_by_temperature;
  /// Which of the dialects that share a route a request is of, by the members that it has; null where none does.
  Api (*told_by_sources)(RequestSources there) = nullptr;
  RequestSources foreign_sources = 0;  ///< Members that are another dialect's on the same route: they count nothing.
  bool has_sampling_params = false;    ///< How to sample is told in `sampling_params`.
  bool takes_stream_options = false;   ///< Tells usage and timings of a stream if it is asked to (request/edits.hpp).

  // Streams.
  Framing framing = Framing::events;
  /// Reads the data of an event, which is no end marker and not blank. False: it is not the JSON it should be.
  bool (*read_event)(std::string_view data, EventFacts& facts);
  bool done_ends_stream = true;  ///< `[DONE]` does, whatever else may.
  StreamEnd end = StreamEnd::marker;
  bool marks_each_prompt = false;  ///< In a list of prompts each one ends with the end marker.

  // Whole answers.
  std::span<const AnswerMember> answer_members{};
  std::span<const AnswerFigures> answer_figures{};

  // Errors of weir's own: as an answer's body, and as the last event of a stream, framed.
  std::string (*error_body)(unsigned status, const OwnError& error) = openai_error_body;
  std::string (*error_event)(std::string_view message) = openai_error_event;

  /// Its route to `path`; one without a path where it has none.
  Route route(std::string_view path) const;

  static bool greedy_by_temperature(const Sampling& asked) { return asked.temperature && *asked.temperature <= 0; }
};

const Dialect& dialect_of(Api api);

/// Tells the API by method and path (query and prefix excluded); `other` where no dialect has the route. /generate is
/// TGI's or SGLang's: here it is TGI's, and RequestFacts::api tells by the body (`inputs`, or `text` and `input_ids`).
Api api_of(std::string_view method, std::string_view path);

/// Reads an event's data; 64 bytes behind it must be readable. Uses a parser of its own per thread.
void read_event(Api api, std::string_view data, EventFacts& facts);

/// The data is one whole JSON document or the end marker: what an event without blank line must be to count.
bool whole_event(std::string_view data);

}  // namespace weir::metrics::wire

// What one event of an answer says, read from its data, whatever engine wrote it: formats are told by their shape, not
// by an engine's name, because fields drift between releases.
//
// Stateless: facts are of one event; what follows from a row of them is the tally's (metrics/measure/answer_tally.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "metrics/vocabulary.hpp"
#include "metrics/wire/engine/figures.hpp"

namespace weir::metrics::wire {

/// What an event says of one choice.
struct ChoiceFacts {
  std::uint32_t index = 0;
  bool token = false;     ///< Brings text, reasoning, a tool delta, token ids or a native token.
  bool output = false;    ///< Brings more than reasoning.
  bool finished = false;  ///< Closes the choice.
  /// How many it brings, where it lists them itself (token ids, native tokens). 0 on an event that ends a choice and
  /// tells the whole count, so that the count does not make it a token event.
  std::optional<std::uint32_t> tokens;
};

struct EventFacts {
  std::vector<ChoiceFacts> choices;
  bool carries_choice = false;    ///< Brings or ends output (MEASUREMENT.md, section 1); choices may be unknown.
  bool marker = false;            ///< Ends the stream in good order.
  bool error = false;             ///< An in-band error.
  bool broken = false;            ///< Not the JSON it should be; all else is void.
  bool prefill_progress = false;  ///< Tells of the prompt being read: no token event.
  bool usage_only = false;        ///< An empty list of choices and a usage object: what include_usage asks for.
  /// A usage object beside choices that bring nothing. Once they have finished, that is such an event too (LiteLLM).
  bool bare_usage = false;
  bool of_one_choice = false;  ///< The counts of a usage event are those of one choice (llama.cpp).
  bool timed = false;          ///< Has llama.cpp's timings with a count in it.
  /// The usage member of an event that carries choices, from its key's quote to its value's end: what
  /// continuous_usage_stats adds. In the event's data.
  std::string_view usage_member;
  /// The same of the timings of an event that finishes no choice: what timings_per_token adds.
  std::string_view timings_member;
  bool one_token_an_event = false;  ///< The format counts by its events (TGI native).
  std::optional<std::uint64_t> prompt_tokens;
  std::optional<std::uint64_t> cached_tokens;
  std::optional<std::uint64_t> completion_tokens;  ///< Cumulative; of the choice, if the event carries one.
  std::string_view finish_reason;                  ///< Valid as long as the event's data and until the next event.
  std::uint64_t output_chars = 0;                  ///< Code points of text and reasoning.
  /// The text may be all of its choice so far, sent anew (SGLang): WholeText tells, by the tokens listed beside it.
  bool whole_text = false;
  std::optional<std::uint64_t> listed_tokens;
  std::optional<EngineFigures> engine;  ///< What the engine says of itself.
  /// The inside of the only text string, where the event is nothing but one choice's text (see Envelope).
  std::string_view plain_text;

  void clear();
  /// Its choices bring nothing and have finished: it is the usage event.
  void take_for_usage_event();
};

/// Reads an event's data; 64 bytes behind it must be readable. Uses a parser of its own per thread.
void read_event(Api api, std::string_view data, EventFacts& facts);

/// The data is one whole JSON document or the end marker: what an event without blank line must be to count.
bool whole_event(std::string_view data);

// One a dialect; `data` is no end marker and not blank. False: it is not the JSON it should be, and the facts are void.
bool read_openai_event(std::string_view data, EventFacts& facts);     // Chat and completions.
bool read_responses_event(std::string_view data, EventFacts& facts);  // OpenAI Responses.
bool read_anthropic_event(std::string_view data, EventFacts& facts);
bool read_generate_event(std::string_view data, EventFacts& facts);  // TGI's and SGLang's /generate, told by shape.
bool read_llamacpp_event(std::string_view data, EventFacts& facts);
bool read_kobold_event(std::string_view data, EventFacts& facts);
bool read_ollama_event(std::string_view data, EventFacts& facts);
bool read_other_event(std::string_view data, EventFacts& facts);

}  // namespace weir::metrics::wire

// What one event of an answer says, whatever engine wrote it. The dialects fill it in.
//
// Stateless: facts are of one event; what follows from a row of them is the tally's (metrics/measure/answer_tally.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "metrics/wire/engine/figures.hpp"

namespace weir::metrics::wire {

/// A finish that is no end of an answer: the engine gave it up (vLLM's and SGLang's word, and gateways').
inline bool gave_up(std::string_view finish_reason) { return finish_reason == "abort" || finish_reason == "error"; }

/// What an event says of one choice.
struct ChoiceFacts {
  std::uint32_t index = 0;
  bool token = false;     ///< It brings text, reasoning, a tool delta, token ids or a native token.
  bool output = false;    ///< It brings more than reasoning.
  bool finished = false;  ///< It closes the choice.
  /// How many it brings, where it lists them itself (token ids, native tokens). 0 on an event that ends a choice and
  /// tells the whole count, so that the count does not make it a token event.
  std::optional<std::uint32_t> tokens;
};

struct EventFacts {
  std::vector<ChoiceFacts> choices;
  bool carries_choice = false;    ///< It brings or ends output (MEASUREMENT.md, section 1); choices may be unknown.
  bool marker = false;            ///< It ends the stream in good order.
  bool error = false;             ///< It is an in-band error.
  bool broken = false;            ///< It is not the JSON it should be, and all else here is void.
  bool prefill_progress = false;  ///< It tells of the prompt being read, and is no token event.
  bool usage_only = false;        ///< It has no choices but a usage object: what include_usage asks for.
  /// It has usage beside choices that bring nothing. Once they have finished, it is a usage event too (LiteLLM).
  bool bare_usage = false;
  bool of_one_choice = false;  ///< The counts of a usage event are those of one choice (llama.cpp).
  bool timed = false;          ///< It has llama.cpp's timings with a count in them.
  /// The usage member of an event that carries choices, from its key's quote to its value's end: what
  /// continuous_usage_stats adds. It lies in the event's data.
  std::string_view usage_member;
  /// The timings member, likewise, of an event that finishes no choice: what timings_per_token adds.
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

}  // namespace weir::metrics::wire

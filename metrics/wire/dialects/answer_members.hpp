// Where an engine's JSON answer has what weir reads of it: one table of all formats of WIRE.md, section 1. Only for
// json_answer.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "metrics/wire/engine/figures.hpp"

namespace weir::metrics::wire::json_places {

/// What a value means, by the keys that lead to it.
enum class Place : std::uint8_t {
  ignored,
  root,
  error,
  object_name,
  choices,
  choice,
  message,
  items,  // Of OpenAI Responses' output.
  item,
  content,  // A string, or a list of parts.
  part,
  text,
  reasoning,          // Under its new name
  reasoning_content,  // and its old one: one text, if both are there.
  calls,              // An object, or an array of them.
  arguments,
  finish_reason,
  native_reason,  // SGLang's, an object.
  native_reason_type,
  status,  // OpenAI Responses'.
  incomplete,
  incomplete_reason,
  usage,
  prompt_details,
  meta_info,
  timings,
  metrics,
  drafts,
  details,
  ids,  // Of tokens, or lists of them: output without a text.
  number,
};

/// The numbers of one document, by where they stand.
struct Counts {
  using Count = std::optional<std::uint64_t>;
  Count prompt, completion, cached;                       // A usage object's, by OpenAI's chat names.
  Count input, output;                                    // By Responses' and Anthropic's names; gateways give both.
  Count cache_created, cache_read;                        // Anthropic's, not in its input_tokens.
  Count native_prompt, native_completion, native_cached;  // An engine's own route's.
  Count timed_prompt, timed_completion, timed_cached;     // llama.cpp's timings'.
  Count drafted, accepted;

  static Count first_of(std::initializer_list<Count> counts) {
    const auto known = std::find_if(counts.begin(), counts.end(), [](Count count) { return count.has_value(); });
    return known == counts.end() ? std::nullopt : *known;
  }
  Count all_completion() const { return first_of({completion, output, native_completion, timed_completion}); }
  Count all_cached() const { return first_of({cached, cache_read, native_cached, timed_cached}); }
  Count all_prompt() const {
    const auto plus = [](Count count, Count more) { return count ? Count(*count + more.value_or(0)) : count; };
    return first_of(
        {prompt, plus(plus(input, cache_created), cache_read), native_prompt, plus(timed_prompt, timed_cached)});
  }
};

struct Member {
  Place in;
  std::string_view key;
  Place place;
  Counts::Count Counts::*count = nullptr;
  std::optional<double> EngineFigures::*figure = nullptr;
  double units_a_second = 1;
};

inline constexpr double milli = 1e3;
inline constexpr double nano = 1e9;

constexpr Member counts(Place in, std::string_view key, Counts::Count Counts::*count) {
  return {in, key, Place::number, count};
}
constexpr Member times(Place in, std::string_view key, std::optional<double> EngineFigures::*figure, double units) {
  return {in, key, Place::number, nullptr, figure, units};
}

inline constexpr Member members[] = {
    {Place::root, "error", Place::error},
    {Place::root, "object", Place::object_name},
    {Place::root, "usage", Place::usage},
    // OpenAI chat and completions, Kobold.
    {Place::root, "choices", Place::choices},
    {Place::root, "results", Place::choices},
    {Place::choice, "message", Place::message},
    {Place::choice, "text", Place::text},
    {Place::choice, "finish_reason", Place::finish_reason},
    {Place::message, "content", Place::content},
    {Place::message, "reasoning_content", Place::reasoning_content},
    {Place::message, "reasoning", Place::reasoning},
    {Place::message, "tool_calls", Place::calls},
    {Place::message, "function_call", Place::calls},
    counts(Place::usage, "prompt_tokens", &Counts::prompt),
    counts(Place::usage, "completion_tokens", &Counts::completion),
    {Place::usage, "prompt_tokens_details", Place::prompt_details},
    counts(Place::prompt_details, "cached_tokens", &Counts::cached),
    // OpenAI Responses.
    {Place::root, "output", Place::items},
    {Place::root, "status", Place::status},
    {Place::root, "incomplete_details", Place::incomplete},
    {Place::incomplete, "reason", Place::incomplete_reason},
    {Place::item, "content", Place::content},
    {Place::item, "summary", Place::content},
    {Place::item, "arguments", Place::arguments},
    {Place::item, "input", Place::arguments},
    {Place::part, "text", Place::text},
    {Place::part, "refusal", Place::text},
    counts(Place::usage, "input_tokens", &Counts::input),
    counts(Place::usage, "output_tokens", &Counts::output),
    {Place::usage, "input_tokens_details", Place::prompt_details},
    // Anthropic.
    {Place::root, "content", Place::content},
    {Place::root, "stop_reason", Place::finish_reason},
    {Place::part, "thinking", Place::text},
    {Place::part, "input", Place::calls},
    counts(Place::usage, "cache_creation_input_tokens", &Counts::cache_created),
    counts(Place::usage, "cache_read_input_tokens", &Counts::cache_read),
    // TGI.
    {Place::root, "generated_text", Place::text},
    {Place::root, "details", Place::details},
    {Place::details, "finish_reason", Place::finish_reason},
    counts(Place::details, "generated_tokens", &Counts::native_completion),
    counts(Place::details, "input_length", &Counts::native_prompt),
    // SGLang.
    {Place::root, "text", Place::text},
    {Place::root, "output_ids", Place::ids},
    {Place::root, "meta_info", Place::meta_info},
    {Place::meta_info, "finish_reason", Place::native_reason},
    {Place::native_reason, "type", Place::native_reason_type},
    counts(Place::meta_info, "prompt_tokens", &Counts::native_prompt),
    counts(Place::meta_info, "completion_tokens", &Counts::native_completion),
    counts(Place::meta_info, "cached_tokens", &Counts::native_cached),
    times(Place::meta_info, "e2e_latency", &EngineFigures::total, 1),
    // llama.cpp: its text is root's content.
    {Place::root, "stop_type", Place::finish_reason},
    counts(Place::root, "tokens_predicted", &Counts::native_completion),
    counts(Place::root, "tokens_evaluated", &Counts::native_prompt),
    {Place::root, "timings", Place::timings},
    counts(Place::timings, "prompt_n", &Counts::timed_prompt),
    counts(Place::timings, "predicted_n", &Counts::timed_completion),
    counts(Place::timings, "cache_n", &Counts::timed_cached),
    counts(Place::timings, "draft_n", &Counts::drafted),
    counts(Place::timings, "draft_n_accepted", &Counts::accepted),
    times(Place::timings, "prompt_ms", &EngineFigures::prefill, milli),
    times(Place::timings, "predicted_ms", &EngineFigures::decode, milli),
    // Ollama.
    {Place::root, "response", Place::text},
    {Place::root, "thinking", Place::text},
    {Place::root, "message", Place::message},
    {Place::message, "thinking", Place::text},
    {Place::root, "done_reason", Place::finish_reason},
    counts(Place::root, "eval_count", &Counts::native_completion),
    counts(Place::root, "prompt_eval_count", &Counts::native_prompt),
    times(Place::root, "prompt_eval_duration", &EngineFigures::prefill, nano),
    times(Place::root, "eval_duration", &EngineFigures::decode, nano),
    times(Place::root, "total_duration", &EngineFigures::total, nano),
    // vLLM's request metrics (see engine_json.hpp).
    {Place::root, "metrics", Place::metrics},
    times(Place::metrics, "queue_time_ms", &EngineFigures::queue, milli),
    times(Place::metrics, "time_to_first_token_ms", &EngineFigures::prefill, milli),
    times(Place::metrics, "generation_time_ms", &EngineFigures::decode, milli),
    times(Place::metrics, "mean_itl_ms", &EngineFigures::time_per_token, milli),
    {Place::metrics, "speculative_decoding", Place::drafts},
    counts(Place::drafts, "num_draft_tokens", &Counts::drafted),
    counts(Place::drafts, "num_accepted_draft_tokens", &Counts::accepted),
};

/// The place of an array's elements; ignored for an array that is not looked into.
constexpr Place element_of(Place array) {
  switch (array) {
    case Place::choices:
      return Place::choice;
    case Place::items:
      return Place::item;
    case Place::content:
      return Place::part;
    case Place::root:
    case Place::calls:
    case Place::ids:
      return array;
    default:
      return Place::ignored;
  }
}

}  // namespace weir::metrics::wire::json_places

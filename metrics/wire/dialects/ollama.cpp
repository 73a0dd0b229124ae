// Ollama's /api/generate and /api/chat (WIRE.md, 1.11), one document a line: they differ in where the text stands. The
// last has done true, the counts and the times in nanoseconds; a prompt found in the cache may not be counted.
#include "metrics/wire/dialects/dialect.hpp"
#include "metrics/wire/json/on_demand.hpp"

namespace weir::metrics::wire {

namespace {

using simdjson::ondemand::raw_json_string;
using simdjson::ondemand::value;

constexpr double nanoseconds = 1e9;

struct Texts {
  bool output = false, thinking = false;
};

bool read_message(value& message, EventFacts& facts, Texts& texts) {
  return for_each_field_in(message, [&](raw_json_string key, value& part) {
    if (key == "content") return read_text(part, facts.output_chars, texts.output);
    if (key == "thinking") return read_text(part, facts.output_chars, texts.thinking);
    if (key == "tool_calls") texts.output |= holds_any(part);
    return true;
  });
}

}  // namespace

bool read_ollama_event(std::string_view data, EventFacts& facts) {
  Texts texts;
  EngineFigures figures;
  bool done = false;
  const bool whole = for_each_field_of(data, [&](raw_json_string key, value& part) {
    if (key == "response") return read_text(part, facts.output_chars, texts.output);
    if (key == "thinking") return read_text(part, facts.output_chars, texts.thinking);
    if (key == "message") return read_message(part, facts, texts);
    if (key == "done") {
      done = is_true(part);
    } else if (key == "done_reason") {
      facts.finish_reason = string_of(part).value_or("");
    } else if (key == "eval_count") {
      facts.completion_tokens = count_of(part);
    } else if (key == "prompt_eval_count") {
      facts.prompt_tokens = count_of(part);
    } else if (key == "prompt_eval_duration") {
      figures.prefill = seconds_of(part, nanoseconds);
    } else if (key == "eval_duration") {
      figures.decode = seconds_of(part, nanoseconds);
    } else if (key == "total_duration") {
      figures.total = seconds_of(part, nanoseconds);
    } else if (key == "error") {
      facts.error |= says_error(part);
    }
    return true;
  });
  if (!whole) return false;
  if (facts.error) return true;
  ChoiceFacts choice;
  choice.token = texts.output || texts.thinking;
  choice.output = texts.output;
  choice.finished = facts.marker = done;
  if (done && !choice.token) choice.tokens = 0;
  if (figures != EngineFigures{}) facts.engine = figures;
  facts.carries_choice = true;
  facts.choices.push_back(choice);
  return true;
}

}  // namespace weir::metrics::wire

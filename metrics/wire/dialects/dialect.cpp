#include "metrics/wire/dialects/dialect.hpp"

#include "metrics/wire/json/feed.hpp"

namespace weir::metrics::wire {

namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r\n";
  const std::size_t from = text.find_first_not_of(blank);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(blank) - from + 1);
}

constexpr std::string_view end_marker = "[DONE]";
constexpr std::string_view nothing_to_say = "null";  // llama.cpp, between the prompts of a list.

/// Reads and keeps nothing.
class Nothing : public Sax<Nothing> {};

bool read_json_event(Api api, std::string_view data, EventFacts& facts) {
  switch (api) {
    case Api::openai_chat:
    case Api::openai_completions:
      return read_openai_event(data, facts);
    case Api::openai_responses:
      return read_responses_event(data, facts);
    case Api::anthropic_messages:
      return read_anthropic_event(data, facts);
    case Api::tgi_generate:
    case Api::sglang_generate:
      return read_generate_event(data, facts);
    case Api::llamacpp_completion:
      return read_llamacpp_event(data, facts);
    case Api::kobold_generate:
      return read_kobold_event(data, facts);
    case Api::ollama_chat:
    case Api::ollama_generate:
      return read_ollama_event(data, facts);
    case Api::other:
      break;
  }
  return read_other_event(data, facts);
}

}  // namespace

void EventFacts::clear() {
  constexpr std::size_t usual = 1024;
  if (choices.capacity() > usual) choices = {};
  choices.clear();
  carries_choice = marker = error = broken = prefill_progress = usage_only = one_token_an_event = whole_text = false;
  bare_usage = of_one_choice = timed = false;
  prompt_tokens.reset();
  cached_tokens.reset();
  completion_tokens.reset();
  listed_tokens.reset();
  finish_reason = {};
  output_chars = 0;
  engine.reset();
  plain_text = {};
  usage_member = timings_member = {};
}

void EventFacts::take_for_usage_event() {
  usage_only = true;
  carries_choice = bare_usage = false;
  of_one_choice = timed;
  choices.clear();
  usage_member = timings_member = {};
}

void read_event(Api api, std::string_view data, EventFacts& facts) {
  // A JSON event is known by its first byte; all else is looked at with less haste.
  if (data.empty() || data.front() != '{') {
    const std::string_view text = trimmed(data);
    if (text.empty() || text == nothing_to_say) return;
    if (text == end_marker) {
      facts.marker = api != Api::tgi_generate;  // TGI's own streams end with generated_text.
      return;
    }
  }
  if (read_json_event(api, data, facts)) return;
  facts.clear();
  facts.broken = true;
}

bool whole_event(std::string_view data) {
  const std::string_view text = trimmed(data);
  if (text == end_marker) return true;
  JsonFeed<Nothing> json;
  json.feed(text);
  return json.whole();
}

}  // namespace weir::metrics::wire

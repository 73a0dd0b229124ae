#include "metrics/wire/stream/event_facts.hpp"

namespace weir::metrics::wire {

void EventFacts::clear() {
  constexpr std::size_t usual = 1024;
  if (choices.capacity() > usual) choices = {};
  choices.clear();
  carries_choice = opens_choices = marker = error = broken = prefill_progress = usage_only = false;
  one_token_an_event = whole_text = bare_usage = of_one_choice = timed = keep_alive = false;
  error_status = 0;
  prompt_tokens.reset();
  cached_tokens.reset();
  prompt_parts.reset();
  completion_tokens.reset();
  reasoning_tokens.reset();
  listed_tokens.reset();
  finish_reason = id = {};
  output_chars = 0;
  engine.reset();
  plain_text = {};
  content.clear();
  content_seen = 0;
  usage_member = timings_member = {};
}

bool EventFacts::says_nothing() const {
  const bool a_word = carries_choice || marker || error || keep_alive || prefill_progress || usage_only || engine;
  return !a_word && choices.empty() && !prompt_tokens && !prompt_parts && !completion_tokens;
}

void EventFacts::take_for_usage_event() {
  usage_only = true;
  carries_choice = bare_usage = false;
  of_one_choice = timed;
  choices.clear();
  usage_member = timings_member = {};
}

}  // namespace weir::metrics::wire

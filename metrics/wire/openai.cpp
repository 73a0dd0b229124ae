// OpenAI chat and completions chunks as vLLM, SGLang, TGI, llama.cpp and Aphrodite write them (WIRE.md, 1.1 to 1.3, 1.6
// to 1.8): the two differ only in where a choice has its text.
#include <algorithm>

#include "metrics/wire/dialect.hpp"
#include "metrics/wire/event_json.hpp"
#include "metrics/wire/text.hpp"

namespace weir::metrics::wire {

namespace {

using simdjson::ondemand::json_type;
using simdjson::ondemand::raw_json_string;
using simdjson::ondemand::value;

/// One chunk being read, and what tells whether it is plain: one choice's text and nothing else (see Envelope).
struct Chunk {
  EventFacts& facts;
  bool choices_seen = false;
  bool usage_seen = false;
  bool calls_seen = false;
  std::uint32_t strings = 0;                 // Text strings, empty ones too.
  std::string_view text{};                   // The last of them that is not empty.
  std::string_view usage{};                  // The member, key and value.
  std::optional<std::uint64_t> predicted{};  // llama.cpp's own counters, for where no usage object is.
  std::optional<std::uint64_t> prompt_read{};
  std::optional<std::uint64_t> prompt_cached{};
};

bool read_text(value& text, Chunk& chunk, ChoiceFacts& choice, bool reasoning) {
  if (!is(text, json_type::string)) return true;
  ++chunk.strings;
  const std::string_view body = string_body(text);
  if (body.empty()) return true;
  const auto points = code_points_of_string_body(body);
  if (!points) return false;
  chunk.text = body;
  chunk.facts.output_chars += *points;
  choice.token = true;
  choice.output |= !reasoning;
  return true;
}

/// A delta of a call: an empty list of calls is none.
void read_calls(value& calls, Chunk& chunk, ChoiceFacts& choice) {
  bool any = false;
  if (simdjson::ondemand::array list; is(calls, json_type::array) && calls.get_array().get(list) == simdjson::SUCCESS) {
    bool none = true;
    any = list.is_empty().get(none) == simdjson::SUCCESS && !none;
  } else {
    any = is(calls, json_type::object);
  }
  chunk.calls_seen |= any;
  choice.token |= any;
  choice.output |= any;
}

bool read_token_ids(value& ids, ChoiceFacts& choice) {
  simdjson::ondemand::array list;
  if (!is(ids, json_type::array)) return true;
  std::size_t count = 0;
  if (ids.get_array().get(list) != simdjson::SUCCESS || list.count_elements().get(count) != simdjson::SUCCESS)
    return false;
  if (count == 0) return true;
  choice.token = true;
  choice.tokens = static_cast<std::uint32_t>(count);
  return true;
}

bool read_delta(value& delta, Chunk& chunk, ChoiceFacts& choice) {
  simdjson::ondemand::object object;
  if (!is(delta, json_type::object)) return true;
  if (delta.get_object().get(object) != simdjson::SUCCESS) return false;
  return for_each_field(object, [&](raw_json_string key, value& part) {
    if (key == "content") return read_text(part, chunk, choice, false);
    if (key == "reasoning_content" || key == "reasoning") return read_text(part, chunk, choice, true);
    if (key == "tool_calls" || key == "function_call") read_calls(part, chunk, choice);
    return true;
  });
}

bool read_choice(simdjson::ondemand::object object, Chunk& chunk) {
  ChoiceFacts choice;
  const bool whole = for_each_field(object, [&](raw_json_string key, value& part) {
    if (key == "delta") return read_delta(part, chunk, choice);
    if (key == "text") return read_text(part, chunk, choice, false);
    if (key == "token_ids") return read_token_ids(part, choice);
    if (key == "index") {
      const auto index = count_of(part).value_or(0);
      choice.index = static_cast<std::uint32_t>(std::min<std::uint64_t>(index, UINT32_MAX));
    } else if (key == "finish_reason" && is(part, json_type::string)) {
      // TGI writes "" for none.
      const std::string_view reason = string_body(part);
      choice.finished = !reason.empty();
      if (choice.finished) chunk.facts.finish_reason = reason;
    }
    return true;
  });
  chunk.facts.choices.push_back(choice);
  return whole;
}

bool read_choices(value& choices, Chunk& chunk) {
  simdjson::ondemand::array list;
  if (!is(choices, json_type::array)) return true;
  if (choices.get_array().get(list) != simdjson::SUCCESS) return false;
  chunk.choices_seen = true;
  for (auto one : list) {
    simdjson::ondemand::object object;
    if (one.get_object().get(object) != simdjson::SUCCESS || !read_choice(object, chunk)) return false;
  }
  return true;
}

bool read_usage(raw_json_string usage_key, value& usage, Chunk& chunk) {
  simdjson::ondemand::object object;
  std::string_view text;
  if (!is(usage, json_type::object)) return true;
  if (usage.get_object().get(object) != simdjson::SUCCESS) return false;
  if (object.raw_json().get(text) != simdjson::SUCCESS || object.reset().error() != simdjson::SUCCESS) return false;
  chunk.usage_seen = true;
  const char* const quote = usage_key.raw() - 1;
  text = text.substr(0, text.rfind('}') + 1);  // What came reaches to the next token.
  chunk.usage = {quote, static_cast<std::size_t>(text.data() + text.size() - quote)};
  EventFacts& facts = chunk.facts;
  return for_each_field(object, [&](raw_json_string key, value& part) {
    if (key == "prompt_tokens") {
      facts.prompt_tokens = count_of(part);
    } else if (key == "completion_tokens") {
      facts.completion_tokens = count_of(part);
    } else if (key == "prompt_tokens_details" && is(part, json_type::object)) {
      simdjson::ondemand::object details;
      if (part.get_object().get(details) != simdjson::SUCCESS) return false;
      return for_each_field(details, [&](raw_json_string name, value& count) {
        if (name == "cached_tokens") facts.cached_tokens = count_of(count);
        return true;
      });
    }
    return true;
  });
}

bool read_timings(value& timings, Chunk& chunk) {
  simdjson::ondemand::object object;
  if (!is(timings, json_type::object)) return true;
  if (timings.get_object().get(object) != simdjson::SUCCESS) return false;
  return for_each_field(object, [&](raw_json_string key, value& part) {
    if (key == "predicted_n") {
      chunk.predicted = count_of(part);
    } else if (key == "prompt_n") {
      chunk.prompt_read = count_of(part);
    } else if (key == "cache_n") {
      chunk.prompt_cached = count_of(part);
    }
    return true;
  });
}

/// What the usage object did not say, llama.cpp's counters may.
void complete_from_timings(Chunk& chunk) {
  EventFacts& facts = chunk.facts;
  if (!facts.completion_tokens) facts.completion_tokens = chunk.predicted;
  if (!facts.cached_tokens) facts.cached_tokens = chunk.prompt_cached;
  if (!facts.prompt_tokens && chunk.prompt_read) {
    facts.prompt_tokens = *chunk.prompt_read + chunk.prompt_cached.value_or(0);
  }
}

bool is_plain(const Chunk& chunk) {
  const EventFacts& facts = chunk.facts;
  if (chunk.strings != 1 || chunk.text.empty() || facts.choices.size() != 1) return false;
  const ChoiceFacts& choice = facts.choices.front();
  return !choice.finished && !choice.tokens && !chunk.calls_seen && !chunk.usage_seen && !facts.completion_tokens &&
         !facts.prompt_tokens && !facts.cached_tokens && !facts.error && !facts.prefill_progress;
}

}  // namespace

void read_openai_event(std::string_view data, EventFacts& facts) {
  Chunk chunk{.facts = facts};
  const bool whole = for_each_field_of(data, [&](raw_json_string key, value& part) {
    if (key == "choices") return read_choices(part, chunk);
    if (key == "usage") return read_usage(key, part, chunk);
    if (key == "timings") return read_timings(part, chunk);
    if (key == "error") {
      facts.error |= !is_null(part);
    } else if (key == "object") {
      facts.error |= is(part, json_type::string) && string_body(part) == "error";
    } else if (key == "prompt_progress") {
      facts.prefill_progress |= !is_null(part);
    }
    return true;
  });
  if (!whole) {
    facts.clear();
    facts.broken = true;
    return;
  }
  complete_from_timings(chunk);
  facts.carries_choice = !facts.choices.empty();
  facts.usage_only = chunk.choices_seen && facts.choices.empty() && chunk.usage_seen && !facts.error;
  if (facts.carries_choice) facts.usage_member = chunk.usage;
  if (is_plain(chunk)) facts.plain_text = chunk.text;
}

}  // namespace weir::metrics::wire

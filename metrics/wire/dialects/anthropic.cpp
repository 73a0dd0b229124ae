// Anthropic Messages (WIRE.md, 1.10), also as vLLM, SGLang and llama.cpp serve it: an event is what its `type` says.
//
// input_tokens leave the cache out. output_tokens of message_start is about 1 and counts nothing, whatever the first
// delta brings: it is not read, and n1 stays unknown; those of message_delta are the whole count.
#include "metrics/wire/dialects/dialect.hpp"
#include "metrics/wire/json/on_demand.hpp"

namespace weir::metrics::wire {

namespace {

using simdjson::ondemand::raw_json_string;
using simdjson::ondemand::value;

struct Usage {
  std::optional<std::uint64_t> input, created, cached, output;
};

struct Delta {
  std::uint64_t chars = 0;
  bool text = false, thinking = false, call = false;
  std::string_view stop_reason;
};

bool read_usage(value& usage, Usage& into) {
  return for_each_field_in(usage, [&](raw_json_string key, value& part) {
    if (key == "input_tokens") {
      into.input = count_of(part);
    } else if (key == "cache_creation_input_tokens") {
      into.created = count_of(part);
    } else if (key == "cache_read_input_tokens") {
      into.cached = count_of(part);
    } else if (key == "output_tokens") {
      into.output = count_of(part);
    }
    return true;
  });
}

/// A block's delta or the message's: each has members of its own. A signature is no text.
bool read_delta(value& delta, Delta& into) {
  return for_each_field_in(delta, [&](raw_json_string key, value& part) {
    if (key == "text") return read_text(part, into.chars, into.text);
    if (key == "thinking") return read_text(part, into.chars, into.thinking);
    if (key == "partial_json") {
      into.call = true;
    } else if (key == "stop_reason") {
      into.stop_reason = string_of(part).value_or("");
    }
    return true;
  });
}

void prompt(const Usage& usage, EventFacts& facts) {
  if (!usage.input) return;
  facts.prompt_tokens = *usage.input + usage.created.value_or(0) + usage.cached.value_or(0);
  facts.cached_tokens = usage.cached;
}

}  // namespace

bool read_anthropic_event(std::string_view data, EventFacts& facts) {
  std::string_view type;
  Usage usage;
  Delta delta;
  const bool whole = for_each_field_of(data, [&](raw_json_string key, value& part) {
    if (key == "type") {
      type = string_of(part).value_or("");
    } else if (key == "delta") {
      return read_delta(part, delta);
    } else if (key == "usage") {
      return read_usage(part, usage);
    } else if (key == "message") {
      return for_each_field_in(
          part, [&](raw_json_string name, value& inner) { return name == "usage" ? read_usage(inner, usage) : true; });
    } else if (key == "error") {
      facts.error |= says_error(part);
    }
    return true;
  });
  if (!whole) return false;

  ChoiceFacts choice;
  if (type == "content_block_delta") {
    choice.output = delta.text || delta.call;
    choice.token = choice.output || delta.thinking;
    facts.output_chars = delta.chars;
  } else if (type == "message_delta") {
    choice.finished = !delta.stop_reason.empty();
    choice.tokens = 0;
    prompt(usage, facts);
    facts.completion_tokens = usage.output;
    facts.finish_reason = delta.stop_reason;
  } else {
    if (type == "message_start") prompt(usage, facts);
    facts.marker = type == "message_stop";
    facts.error |= type == "error";
    return true;
  }
  facts.carries_choice = true;
  facts.choices.push_back(choice);
  return true;
}

}  // namespace weir::metrics::wire

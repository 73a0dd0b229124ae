// Anthropic Messages, also as vLLM, SGLang and llama.cpp serve it. An event's `type` says what it is.
//
// input_tokens leave the cache out, and message_delta may tell some parts of the prompt anew. The output_tokens of
// message_start are about 1, whatever the first delta brings, so they are not read, and n1 stays unknown. The
// output_tokens of message_delta are the whole count.
#include "metrics/wire/dialects/dialect.hpp"
#include "metrics/wire/json/text.hpp"
#include "metrics/wire/json/writer.hpp"

namespace weir::metrics::wire {

namespace {

using simdjson::ondemand::raw_json_string;
using simdjson::ondemand::value;

struct Usage {
  PromptParts prompt;
  std::optional<std::uint64_t> output, thinking;
};

struct Delta {
  std::uint64_t chars = 0;
  bool text = false, thinking = false, call = false;
  std::string_view inside;     // The text, or the thinking.
  std::string_view arguments;  // A part of a call's.
  std::string_view stop_reason;
};

bool read_usage(value& usage, Usage& into) {
  return for_each_field_in(usage, [&](raw_json_string key, value& part) {
    if (key == "input_tokens") {
      into.prompt.uncached = count_of(part);
    } else if (key == "cache_creation_input_tokens") {
      into.prompt.cache_created = count_of(part);
    } else if (key == "cache_read_input_tokens") {
      into.prompt.cache_read = count_of(part);
    } else if (key == "output_tokens") {
      into.output = count_of(part);
    } else if (key == "output_tokens_details") {
      return for_each_field_in(part, [&](raw_json_string name, value& count) {
        if (name == "thinking_tokens") into.thinking = count_of(count);
        return true;
      });
    }
    return true;
  });
}

/// A block's delta and the message's delta have different members. A signature is no text.
bool read_delta(value& delta, Delta& into) {
  return for_each_field_in(delta, [&](raw_json_string key, value& part) {
    if (key == "text") return read_text(part, into.chars, into.text, into.inside);
    if (key == "thinking") return read_text(part, into.chars, into.thinking, into.inside);
    if (key == "partial_json") {
      into.call = true;
      into.arguments = string_of(part).value_or("");
    } else if (key == "stop_reason") {
      into.stop_reason = string_of(part).value_or("");
    }
    return true;
  });
}

bool read_event(std::string_view data, EventFacts& facts) {
  std::string_view type, block;
  Usage usage;
  Delta delta;
  const bool whole = for_each_field_of(data, [&](raw_json_string key, value& part) {
    if (key == "type") {
      type = string_of(part).value_or("");
    } else if (key == "delta") {
      return read_delta(part, delta);
    } else if (key == "content_block") {
      block = json_of(part);
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
  if (usage.prompt.any()) facts.prompt_parts = usage.prompt;

  ChoiceFacts choice;
  if (type == "content_block_delta") {
    choice.output = delta.text || delta.call;
    choice.token = choice.output || delta.thinking;
    facts.output_chars = delta.chars;
    facts.add_content(ContentPart::What::text, delta.inside);
    facts.add_content(ContentPart::What::arguments, delta.arguments);
  } else if (type == "message_delta") {
    choice.finished = !delta.stop_reason.empty();
    choice.tokens = 0;
    facts.completion_tokens = usage.output;
    facts.reasoning_tokens = usage.thinking;
    facts.finish_reason = delta.stop_reason;
  } else {
    if (type == "content_block_start") facts.add_content(ContentPart::What::call, block);
    facts.marker = type == "message_stop";
    facts.error |= type == "error";
    facts.keep_alive = type == "ping";
    facts.opens_choices = type == "message_start" && !facts.error;
    return true;
  }
  facts.carries_choice = true;
  facts.choices.push_back(choice);
  return true;
}

constexpr Route routes[] = {{"/v1/messages"}};

using In = RequestPlace;
constexpr RequestMember request[] = {
    {In::root, "max_tokens", In::max_tokens},
    {In::root, "temperature", In::temperature},
    {In::root, "messages", In::messages},
    {In::root, "tools", In::tools, RequestSource::tools},
    {In::root, "system", In::system, RequestSource::system},
    {In::part, "name", In::text},
    {In::part, "input", In::text_tree},
    {In::part, "content", In::content},
    {In::part, "id", In::label},
    {In::part, "tool_use_id", In::label},
};

using Place = AnswerPlace;
constexpr AnswerMember answer[] = {
    {Place::root, "content", Place::content},
    {Place::root, "stop_reason", Place::finish_reason},
    {Place::root, "usage", Place::usage},
    {Place::part, "text", Place::text},
    {Place::part, "thinking", Place::text},
    {Place::part, "name", Place::call_name},
    {Place::part, "input", Place::arguments},
    counts(Place::usage, "input_tokens", &AnswerCounts::input),
    counts(Place::usage, "output_tokens", &AnswerCounts::output),
    {Place::usage, "output_tokens_details", Place::completion_details},
    counts(Place::completion_details, "thinking_tokens", &AnswerCounts::reasoning),
    counts(Place::usage, "cache_creation_input_tokens", &AnswerCounts::cache_created),
    counts(Place::usage, "cache_read_input_tokens", &AnswerCounts::cache_read),
};

std::string error_json(std::string_view type, std::string_view message) {
  JsonWriter body;
  body.open('{').key("type").text("error").key("error").open('{');
  return body.key("type").text(type).key("message").text(message).close('}').close('}').written();
}

/// Returns Anthropic's own word for a status (its API reference, "Errors").
std::string_view error_type(unsigned status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

std::string error_body(unsigned status, const OwnError& error) { return error_json(error_type(status), error.message); }

std::string error_event(unsigned status, const OwnError& error) {
  return "event: error\ndata: " + error_body(status, error) + "\n\n";
}

}  // namespace

constinit const Dialect dialects::anthropic_messages{
    .api = Api::anthropic_messages,
    .routes = routes,
    .request_members = request,
    .read_event = read_event,
    .answer_members = answer,
    .error_body = error_body,
    .error_event = error_event,
};

}  // namespace weir::metrics::wire

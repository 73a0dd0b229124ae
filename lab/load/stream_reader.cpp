#include "lab/load/stream_reader.hpp"

#include <algorithm>

#include "lab/json_fields.hpp"
#include "metrics/utf8.hpp"

namespace weir::lab::load {
namespace {

/// The facts of one event, whatever the dialect.
struct Event {
  bool token = false;
  bool choice = false;
  bool reasoning = false;  ///< Its token is no output.
  std::string text;        ///< Output alone.
  std::string finish_reason;
  std::uint64_t chars = 0;  ///< Output and reasoning have so many.
  bool ends = false;
  std::string error;
  std::optional<std::uint64_t> prompt_tokens, output_tokens, cached_tokens;
};

std::uint64_t code_points(std::string_view text) {
  return static_cast<std::uint64_t>(std::ranges::count_if(text, metrics::begins_code_point));
}

void add_output(Event& event, std::string_view text) {
  event.text += text;
  event.chars += code_points(text);
  if (!text.empty()) event.token = true;
}

std::optional<std::uint64_t> count(const JsonObject& object, std::string_view key) {
  const auto value = field<std::int64_t>(object, key);
  return value && *value >= 0 ? std::optional(static_cast<std::uint64_t>(*value)) : std::nullopt;
}

std::string error_text(const JsonValue& error) {
  JsonObject object;
  std::string_view text;
  if (error.get(text) == simdjson::SUCCESS) return std::string(text);
  const auto told = error.get(object) == simdjson::SUCCESS ? field<std::string_view>(object, "message") : std::nullopt;
  return told ? std::string(*told) : simdjson::minify(error);
}

void read_choice(simdjson::simdjson_result<JsonValue> of, Event& event) {
  JsonObject choice;
  if (of.get(choice) != simdjson::SUCCESS) return;
  event.choice = true;
  event.finish_reason = text_at(choice, "finish_reason");
  add_output(event, text_at(choice, "text"));
  const auto delta = field<JsonObject>(choice, "delta");
  if (!delta) return;
  add_output(event, text_at(*delta, "content"));
  const auto tool_calls = field<JsonArray>(*delta, "tool_calls");
  event.token |= tool_calls && tool_calls->size() > 0;
  const std::uint64_t thought =
      code_points(text_at(*delta, "reasoning")) + code_points(text_at(*delta, "reasoning_content"));
  event.reasoning = thought > 0 && !event.token;
  event.token |= thought > 0;
  event.chars += thought;
}

void read_openai(const JsonObject& root, Event& event) {
  const auto choices = field<JsonArray>(root, "choices");
  for (std::size_t i = 0; choices && i < choices->size(); ++i) read_choice(choices->at(i), event);
  if (const auto usage = field<JsonObject>(root, "usage")) {
    event.prompt_tokens = count(*usage, "prompt_tokens");
    event.output_tokens = count(*usage, "completion_tokens");
    if (const auto details = field<JsonObject>(*usage, "prompt_tokens_details")) {
      event.cached_tokens = count(*details, "cached_tokens");
    }
  }
}

void read_tgi(const JsonObject& root, Event& event) {
  event.choice = event.token = value_at(root, "token").has_value();
  if (const auto token = field<JsonObject>(root, "token"); token && !flag_at(*token, "special")) {
    add_output(event, text_at(*token, "text"));
  }
  event.ends = field<std::string_view>(root, "generated_text").has_value();
  if (const auto details = field<JsonObject>(root, "details")) {
    event.prompt_tokens = count(*details, "input_length");
    event.output_tokens = count(*details, "generated_tokens");
    event.finish_reason = text_at(*details, "finish_reason");
  }
}

Event read_event(std::string_view data, Api api) {
  Event event;
  const auto root = object_of(data);
  const auto error = root ? value_at(*root, "error") : std::nullopt;
  if (!root) {
    event.error = "an event is not a JSON object";
  } else if (error && !error->is_null()) {
    event.error = error_text(*error);
  } else {
    api == Api::tgi ? read_tgi(*root, event) : read_openai(*root, event);
  }
  return event;
}

}  // namespace

void StreamReader::feed(std::string_view bytes, Moment at) {
  ++reads;
  const std::uint64_t before = token_events;
  splitter_.feed(bytes, [&](std::string_view data) { event(data, at); });
  if (token_events > before) ++token_reads;
  if (token_events > before + 1) ++coalesced_reads;
}

void StreamReader::event(std::string_view data, Moment at) {
  ++events;
  if (data == "[DONE]") {
    complete = api_ != Api::tgi;
    return;
  }
  if (data.empty()) return;
  Event seen = read_event(data, api_);
  if (!seen.error.empty()) {
    if (error.empty()) error = std::move(seen.error);
    return;
  }
  if (seen.token) token(at);
  if (seen.token && !seen.reasoning && !first_output) first_output = at;
  if (seen.choice && !first_choice) first_choice = at;
  if (seen.choice) last_choice = at;
  if (keep_text_) text += seen.text;
  chars += seen.chars;
  if (!seen.finish_reason.empty()) {
    finish_reason = std::move(seen.finish_reason);
    closed_empty = seen.choice && !seen.token;
  }
  if (seen.prompt_tokens) prompt_tokens = seen.prompt_tokens;
  if (seen.output_tokens) output_tokens = seen.output_tokens;
  if (seen.cached_tokens) cached_tokens = seen.cached_tokens;
  complete |= seen.ends;
}

void StreamReader::token(Moment at) {
  ++token_events;
  if (!first_token) first_token = at;
  if (last_token) gaps.push_back(std::chrono::duration<float>(at - *last_token).count());
  last_token = at;
}

std::optional<double> Stream::tpot() const {
  if (!first_token) return std::nullopt;
  const std::uint64_t n = output_tokens.value_or(token_events);
  const Moment end = output_tokens ? *last_choice : *last_token;
  if (n < 2 || end == *first_token) return std::nullopt;
  return std::chrono::duration<double>(end - *first_token).count() / static_cast<double>(n - 1);
}

}  // namespace weir::lab::load

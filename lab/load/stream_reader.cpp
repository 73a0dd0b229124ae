#include "lab/load/stream_reader.hpp"

#include <algorithm>
#include <array>
#include <boost/json.hpp>

#include "lab/json_fields.hpp"
#include "metrics/utf8.hpp"

namespace weir::lab::load {
namespace {

namespace json = boost::json;

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

std::optional<std::uint64_t> count(const json::object& object, std::string_view key) {
  const json::value* v = object.if_contains(key);
  if (!v || !v->is_int64() || v->get_int64() < 0) return std::nullopt;
  return static_cast<std::uint64_t>(v->get_int64());
}

std::string error_text(const json::value& error) {
  if (error.is_string()) return error.get_string().c_str();
  const json::object* object = error.if_object();
  const bool told = object && object->contains("message") && object->at("message").is_string();
  return told ? text_of(*object, "message") : json::serialize(error);
}

void read_openai(const json::object& root, Event& event) {
  if (const json::array* choices = array_at(root, "choices")) {
    for (const json::value& c : *choices) {
      const json::object* choice = c.if_object();
      if (!choice) continue;
      event.choice = true;
      event.finish_reason = text_at(*choice, "finish_reason");
      add_output(event, text_at(*choice, "text"));
      const json::object* delta = object_at(*choice, "delta");
      if (!delta) continue;
      add_output(event, text_at(*delta, "content"));
      const json::array* tool_calls = array_at(*delta, "tool_calls");
      event.token |= tool_calls && !tool_calls->empty();
      const std::uint64_t thought =
          code_points(text_at(*delta, "reasoning")) + code_points(text_at(*delta, "reasoning_content"));
      event.reasoning = thought > 0 && !event.token;
      event.token |= thought > 0;
      event.chars += thought;
    }
  }
  if (const json::object* usage = object_at(root, "usage")) {
    event.prompt_tokens = count(*usage, "prompt_tokens");
    event.output_tokens = count(*usage, "completion_tokens");
    if (const auto* details = object_at(*usage, "prompt_tokens_details")) {
      event.cached_tokens = count(*details, "cached_tokens");
    }
  }
}

void read_tgi(const json::object& root, Event& event) {
  event.choice = event.token = root.contains("token");
  if (const json::object* token = object_at(root, "token"); token && !flag_at(*token, "special")) {
    add_output(event, text_at(*token, "text"));
  }
  const json::value* text = root.if_contains("generated_text");
  event.ends = text && text->is_string();
  if (const json::object* details = object_at(root, "details")) {
    event.prompt_tokens = count(*details, "input_length");
    event.output_tokens = count(*details, "generated_tokens");
    event.finish_reason = text_at(*details, "finish_reason");
  }
}

Event read_event(std::string_view data, Api api) {
  // The memory of an event is on the stack unless the event is large.
  std::array<unsigned char, 8192> memory;
  json::monotonic_resource resource(memory.data(), memory.size());
  boost::system::error_code ec;
  Event event;
  const json::value document = json::parse(data, ec, &resource);
  const json::object* root = ec ? nullptr : document.if_object();
  if (!root) {
    event.error = "an event is not a JSON object";
    return event;
  }
  const json::value* error = root->if_contains("error");
  if (error && !error->is_null()) {
    event.error = error_text(*error);
    return event;
  }
  api == Api::tgi ? read_tgi(*root, event) : read_openai(*root, event);
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

// OpenAI Responses: an event's `type` says what it is, wherever in the event it stands. Text comes in
// `*.delta` events; counts come with the event that ends the stream.
#include "metrics/wire/dialects/dialect.hpp"
#include "metrics/wire/engine/report.hpp"
#include "metrics/wire/json/writer.hpp"

namespace weir::metrics::wire {

namespace {

using simdjson::ondemand::json_type;
using simdjson::ondemand::raw_json_string;
using simdjson::ondemand::value;

/// The parts of an event, kept until its type is known.
struct Parts {
  std::string_view type, item;
  std::string_view id;      // The response's.
  std::string_view inside;  // The delta's string.
  std::uint64_t chars = 0;
  bool text = false;
  std::string_view status, cut_short_by;
  std::optional<std::uint64_t> input, cached, output, reasoning;
  std::optional<EngineFigures> engine;
};

bool read_usage(value& usage, Parts& parts) {
  return for_each_field_in(usage, [&](raw_json_string key, value& part) {
    if (key == "input_tokens") {
      parts.input = count_of(part);
    } else if (key == "output_tokens") {
      parts.output = count_of(part);
    } else if (key == "input_tokens_details") {
      return for_each_field_in(part, [&](raw_json_string name, value& count) {
        if (name == "cached_tokens") parts.cached = count_of(count);
        return true;
      });
    } else if (key == "output_tokens_details") {
      return for_each_field_in(part, [&](raw_json_string name, value& count) {
        if (name == "reasoning_tokens") parts.reasoning = count_of(count);
        return true;
      });
    }
    return true;
  });
}

bool read_response(value& response, Parts& parts) {
  return for_each_field_in(response, [&](raw_json_string key, value& part) {
    if (key == "usage") return read_usage(part, parts);
    if (key == "id") {
      parts.id = string_of(part).value_or("");
    } else if (key == "status") {
      parts.status = string_of(part).value_or("");
    } else if (key == "incomplete_details") {
      return for_each_field_in(part, [&](raw_json_string name, value& reason) {
        if (name == "reason") parts.cut_short_by = string_of(reason).value_or("");
        return true;
      });
    } else if (key == "metrics" && is(part, json_type::object)) {
      return read_vllm_metrics(part, parts.engine.emplace());
    }
    return true;
  });
}

void delta(const Parts& parts, EventFacts& facts) {
  const auto has = [&](std::string_view word) { return parts.type.find(word) != std::string_view::npos; };
  ChoiceFacts choice;
  if (has("text.") || has("refusal.")) {
    choice.token = parts.text;
    facts.output_chars = parts.chars;
    facts.add_content(ContentPart::What::text, parts.inside);
  } else {
    choice.token = true;  // The arguments of a call, or sound; all of it is output.
    if (has("_arguments.") || has("_input.")) facts.add_content(ContentPart::What::arguments, parts.inside);
  }
  choice.output = choice.token && !has(".reasoning");
  facts.carries_choice = true;
  facts.choices.push_back(choice);
}

void end(const Parts& parts, EventFacts& facts) {
  facts.carries_choice = facts.marker = true;
  facts.error |= parts.type == "response.failed";
  facts.choices.push_back({.index = 0, .token = false, .output = false, .finished = true, .tokens = 0});
  facts.prompt_tokens = parts.input;
  facts.cached_tokens = parts.cached;
  facts.completion_tokens = parts.output;
  facts.reasoning_tokens = parts.reasoning;
  facts.finish_reason = parts.cut_short_by.empty() ? parts.status : parts.cut_short_by;
  facts.engine = parts.engine;
}

bool read_event(std::string_view data, EventFacts& facts) {
  Parts parts;
  const bool whole = for_each_field_of(data, [&](raw_json_string key, value& part) {
    if (key == "delta") return read_text(part, parts.chars, parts.text, parts.inside);
    if (key == "response") return read_response(part, parts);
    if (key == "type") {
      parts.type = string_of(part).value_or("");
    } else if (key == "item") {
      parts.item = json_of(part);
    } else if (key == "error") {
      facts.error |= says_error(part);
    }
    return true;
  });
  if (!whole) return false;
  facts.id = parts.id;
  if (parts.type == "error") {
    facts.error = true;
  } else if (parts.type.starts_with("response.") && parts.type.ends_with(".delta")) {
    delta(parts, facts);
  } else if (parts.type == "response.completed" || parts.type == "response.incomplete" ||
             parts.type == "response.failed" || parts.type == "response.cancelled") {
    end(parts, facts);
  } else if (parts.type == "response.output_item.added") {
    facts.add_content(ContentPart::What::call, parts.item);
  }
  return true;
}

constexpr Route routes[] = {{"/v1/responses"}, {"/responses"}};

using In = RequestPlace;
constexpr RequestMember request[] = {
    named(In::root, "previous_response_id", In::stored_context, NamedBy::stored),
    named(In::root, "conversation", In::stored_context, NamedBy::conversation),
    {In::root, "store", In::store},
    {In::root, "max_output_tokens", In::max_tokens},
    {In::root, "temperature", In::temperature},
    {In::root, "input", In::input},
    {In::root, "tools", In::tools, RequestSource::tools},
    {In::root, "instructions", In::system, RequestSource::system},
    // Items that are no messages.
    {In::message, "name", In::text},
    {In::message, "arguments", In::text},
    {In::message, "output", In::content},
    {In::message, "summary", In::content},
    {In::message, "call_id", In::label},
    {In::root, "reasoning", In::seed_tree},
};

using Place = AnswerPlace;
constexpr AnswerMember answer[] = {
    {Place::root, "id", Place::id},
    {Place::root, "object", Place::object_name},
    {Place::root, "output", Place::items},
    {Place::root, "status", Place::status},
    {Place::root, "incomplete_details", Place::incomplete},
    {Place::incomplete, "reason", Place::incomplete_reason},
    {Place::item, "content", Place::content},
    {Place::item, "summary", Place::content},
    {Place::item, "name", Place::call_name},
    {Place::item, "arguments", Place::arguments},
    {Place::item, "input", Place::arguments},
    {Place::part, "text", Place::text},
    {Place::part, "refusal", Place::text},
    {Place::root, "usage", Place::usage},
    counts(Place::usage, "input_tokens", &AnswerCounts::input),
    counts(Place::usage, "output_tokens", &AnswerCounts::output),
    {Place::usage, "input_tokens_details", Place::prompt_details},
    counts(Place::prompt_details, "cached_tokens", &AnswerCounts::cached),
    {Place::usage, "output_tokens_details", Place::completion_details},
    counts(Place::completion_details, "reasoning_tokens", &AnswerCounts::reasoning),
    {Place::root, "metrics", Place::metrics},
    {Place::metrics, vllm_drafts_key, Place::drafts},
};
constexpr AnswerFigures figures[] = {{Place::metrics, vllm_metrics}, {Place::drafts, vllm_drafts}};

std::string error_event(unsigned /*status*/, const OwnError& error) {
  JsonWriter event;
  event.open('{').key("type").text("error").key("code").text(error.code);
  event.key("message").text(error.message).key("param").null().close('}');
  return "event: error\ndata: " + event.written() + "\n\n";
}

}  // namespace

constinit const Dialect dialects::openai_responses{
    .api = Api::openai_responses,
    .routes = routes,
    .request_members = request,
    .read_event = read_event,
    .answer_members = answer,
    .answer_figures = figures,
    .error_event = error_event,
};

}  // namespace weir::metrics::wire

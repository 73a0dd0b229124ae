// Ollama's /api/generate and /api/chat send one document a line; they differ in where the text stands.
// The last document has done true, the counts, and the times in nanoseconds. It may leave a prompt found in the cache
// uncounted.
#include "metrics/wire/dialects/dialect.hpp"
#include "metrics/wire/engine/report.hpp"
#include "metrics/wire/json/writer.hpp"

namespace weir::metrics::wire {

namespace {

using simdjson::ondemand::raw_json_string;
using simdjson::ondemand::value;

struct Texts {
  bool output = false, thinking = false;
};

bool read_message(value& message, EventFacts& facts, Texts& texts) {
  return for_each_field_in(message, [&](raw_json_string key, value& part) {
    if (key == "content") return read_content(part, facts, ContentPart::What::text, texts.output);
    if (key == "thinking") return read_content(part, facts, ContentPart::What::reasoning, texts.thinking);
    if (key != "tool_calls") return true;
    const std::string_view calls = json_of(part);
    if (!holds_any(calls)) return true;
    texts.output = true;
    facts.add_content(ContentPart::What::call, calls);
    return true;
  });
}

bool read_event(std::string_view data, EventFacts& facts) {
  Texts texts;
  EngineReport report;
  bool done = false;
  const bool whole = for_each_field_of(data, [&](raw_json_string key, value& part) {
    if (key == "response") return read_content(part, facts, ContentPart::What::text, texts.output);
    if (key == "thinking") return read_content(part, facts, ContentPart::What::reasoning, texts.thinking);
    if (key == "message") return read_message(part, facts, texts);
    if (key == "done") {
      done = is_true(part);
    } else if (key == "done_reason") {
      facts.finish_reason = string_of(part).value_or("");
    } else if (key == "eval_count") {
      facts.completion_tokens = count_of(part);
    } else if (key == "prompt_eval_count") {
      facts.prompt_tokens = count_of(part);
    } else if (key == "error") {
      facts.error |= says_error(part);
    } else {
      take_figure(key, part, ollama_durations, report);
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
  const EngineFigures& figures = report;
  if (figures != EngineFigures{}) facts.engine = figures;
  facts.carries_choice = true;
  facts.choices.push_back(choice);
  return true;
}

using In = RequestPlace;
constexpr Route chat_routes[] = {{"/api/chat", Streams::unless_declined}};
constexpr RequestMember chat_request[] = {
    {In::root, "messages", In::messages},
    {In::root, "tools", In::tools, RequestSource::tools},
    {In::root, "options", In::options},
    {In::options, "num_predict", In::max_tokens},
    {In::options, "temperature", In::temperature},
    {In::message, "thinking", In::text},
    {In::message, "images", In::images},
    {In::message, "tool_name", In::label},
    {In::root, "think", In::seed_tree},
};
constexpr Route generate_routes[] = {{"/api/generate", Streams::unless_declined}};
constexpr RequestMember generate_request[] = {
    {In::root, "system", In::system, RequestSource::system},
    {In::root, "prompt", In::prompt},
    {In::root, "suffix", In::text, RequestSource::suffix},
    {In::root, "context", In::token_ids, RequestSource::context},
    {In::root, "images", In::images, RequestSource::images},
    {In::root, "template", In::seed_tree},
    {In::root, "raw", In::seed_tree},
    {In::root, "think", In::seed_tree},
    {In::root, "options", In::options},
    {In::options, "num_predict", In::max_tokens},
    {In::options, "temperature", In::temperature},
};

using Place = AnswerPlace;
constexpr AnswerMember answer[] = {
    {Place::root, "response", Place::text},
    {Place::root, "thinking", Place::thinking},
    {Place::root, "message", Place::message},
    {Place::message, "content", Place::content},
    {Place::message, "thinking", Place::thinking},
    {Place::message, "tool_calls", Place::calls},
    {Place::calls, "function", Place::call_function},
    {Place::call_function, "name", Place::call_name},
    {Place::call_function, "arguments", Place::arguments},
    {Place::root, "done_reason", Place::finish_reason},
    counts(Place::root, "eval_count", &AnswerCounts::native_completion),
    counts(Place::root, "prompt_eval_count", &AnswerCounts::native_prompt),
};
constexpr AnswerFigures answer_figures[] = {{Place::root, ollama_durations}};

std::string error_event(unsigned /*status*/, const OwnError& error) {
  JsonWriter line;
  return line.open('{').key("error").text(error.message).close('}').written() + "\n";
}

}  // namespace

constinit const Dialect dialects::ollama_chat{
    .api = Api::ollama_chat,
    .routes = chat_routes,
    .request_members = chat_request,
    .framing = Framing::lines,
    .read_event = read_event,
    .answer_members = answer,
    .answer_figures = answer_figures,
    .error_event = error_event,
};

constinit const Dialect dialects::ollama_generate{
    .api = Api::ollama_generate,
    .routes = generate_routes,
    .request_members = generate_request,
    .renders_prompt = true,
    .framing = Framing::lines,
    .read_event = read_event,
    .answer_members = answer,
    .answer_figures = answer_figures,
    .error_event = error_event,
};

}  // namespace weir::metrics::wire

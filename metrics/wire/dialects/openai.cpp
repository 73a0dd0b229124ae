// OpenAI chat and completions chunks as vLLM, SGLang, TGI, llama.cpp and Aphrodite write them. The two differ only in
// where a choice has its text.
#include <algorithm>

#include "metrics/wire/dialects/dialect.hpp"
#include "metrics/wire/engine/report.hpp"

namespace weir::metrics::wire {

namespace {

using simdjson::ondemand::json_type;
using simdjson::ondemand::raw_json_string;
using simdjson::ondemand::value;

/// A chunk while it is read, and what shows whether it is plain: one choice's text and nothing else (see
/// EventTemplate).
struct Chunk {
  EventFacts& facts;
  bool usage_seen = false;
  bool more_seen = false;     // There are calls, counts or figures beside the text; a plain chunk has none.
  std::uint32_t strings = 0;  // Counts the text strings, empty ones too.
  std::string_view text{};    // The last of them that is not empty.
  std::string_view usage{};   // The usage member, key and value.
  std::string_view timed{};   // The timings member, key and value.
  std::optional<EngineReport> timings{};
};

/// Adds the text's code points to `chars`, and sets `any` if there are some.
bool read_chunk_text(value& text, Chunk& chunk, std::uint64_t& chars, bool& any) {
  if (!is(text, json_type::string)) return true;
  ++chunk.strings;
  return read_text(text, chars, any, chunk.text);
}

bool read_list(value& list, Chunk& chunk, ChoiceFacts& choice, bool reasoning, unsigned depth);

/// Reads a text: a string, or a list of strings and of parts that have a text, a refusal or reasoning in them.
bool read_output(value& text, Chunk& chunk, ChoiceFacts& choice, bool reasoning = false, unsigned depth = 0) {
  if (is(text, json_type::array)) return read_list(text, chunk, choice, reasoning, depth);
  bool any = false;
  if (!read_chunk_text(text, chunk, chunk.facts.output_chars, any)) return false;
  if (any) chunk.facts.add_content(reasoning ? ContentPart::What::reasoning : ContentPart::What::text, chunk.text);
  choice.token |= any;
  choice.output |= any && !reasoning;
  return true;
}

bool read_part(value& part, Chunk& chunk, ChoiceFacts& choice, bool reasoning, unsigned depth) {
  if (!is(part, json_type::object)) return read_output(part, chunk, choice, reasoning, depth);
  return for_each_field_in(part, [&](raw_json_string key, value& inner) {
    const bool thinks = key == "thinking";
    if (!thinks && key != "text" && key != "refusal") return true;
    return read_output(inner, chunk, choice, reasoning || thinks, depth);
  });
}

bool read_list(value& list, Chunk& chunk, ChoiceFacts& choice, bool reasoning, unsigned depth) {
  constexpr unsigned deepest = 2;  // Mistral's reasoning is a list in a part of a list.
  simdjson::ondemand::array parts;
  if (depth == deepest) return true;
  if (list.get_array().get(parts) != simdjson::SUCCESS) return false;
  chunk.more_seen = true;
  for (auto one : parts) {
    value part;
    if (one.get(part) != simdjson::SUCCESS) return false;
    if (!read_part(part, chunk, choice, reasoning, depth + 1)) return false;
  }
  return true;
}

/// Reads a call's delta. An empty list of calls counts as no call.
void read_calls(value& calls, Chunk& chunk, ChoiceFacts& choice) {
  const std::string_view json = json_of(calls);
  if (!holds_any(json)) return;
  chunk.facts.add_content(ContentPart::What::call_delta, json);
  chunk.more_seen = choice.token = choice.output = true;
}

bool read_token_ids(value& ids, ChoiceFacts& choice) {
  std::optional<std::uint64_t> count;
  if (!count_elements(ids, count)) return false;
  if (count.value_or(0) == 0) return true;
  choice.token = true;
  choice.tokens = static_cast<std::uint32_t>(*count);
  return true;
}

bool read_delta(value& delta, Chunk& chunk, ChoiceFacts& choice) {
  std::uint64_t reasoning = 0;
  std::string_view reasons;
  const bool whole = for_each_field_in(delta, [&](raw_json_string key, value& part) {
    if (key == "content" || key == "refusal") return read_output(part, chunk, choice);
    if (key == "reasoning_content" || key == "reasoning") {
      if (is(part, json_type::array)) return read_output(part, chunk, choice, true);
      // While the name was changing, vLLM sent the same text under both names.
      std::uint64_t chars = 0;
      if (!read_chunk_text(part, chunk, chars, choice.token)) return false;
      if (chars > reasoning) reasons = chunk.text;
      reasoning = std::max(reasoning, chars);
    } else if (key == "tool_calls" || key == "function_call") {
      read_calls(part, chunk, choice);
    }
    return true;
  });
  chunk.facts.output_chars += reasoning;
  chunk.facts.add_content(ContentPart::What::reasoning, reasons);
  return whole;
}

bool read_choice(simdjson::ondemand::object object, Chunk& chunk) {
  ChoiceFacts choice;
  const bool whole = for_each_field(object, [&](raw_json_string key, value& part) {
    if (key == "delta") return read_delta(part, chunk, choice);
    if (key == "text") return read_output(part, chunk, choice);
    if (key == "token_ids") return read_token_ids(part, choice);
    if (key == "index") {
      choice.index = index_of(part);
    } else if (key == "finish_reason") {
      // TGI writes "" if there is no reason yet.
      const std::string_view reason = string_of(part).value_or("");
      choice.finished = !reason.empty();
      if (choice.finished) chunk.facts.finish_reason = reason;
      chunk.facts.error |= gave_up(reason);
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
  for (auto one : list) {
    simdjson::ondemand::object object;
    if (one.get_object().get(object) != simdjson::SUCCESS || !read_choice(object, chunk)) return false;
  }
  return true;
}

/// Opens a member that is an object, and records its bytes, from its key's quote to its value's end.
bool open_member(raw_json_string key, value& part, simdjson::ondemand::object& object, std::string_view& member) {
  std::string_view text;
  if (part.get_object().get(object) != simdjson::SUCCESS) return false;
  if (object.raw_json().get(text) != simdjson::SUCCESS || object.reset().error() != simdjson::SUCCESS) return false;
  const char* const quote = key.raw() - 1;
  text = text.substr(0, text.rfind('}') + 1);  // The view reached to the next token.
  member = {quote, static_cast<std::size_t>(text.data() + text.size() - quote)};
  return true;
}

bool read_usage(raw_json_string usage_key, value& usage, Chunk& chunk) {
  simdjson::ondemand::object object;
  if (!is(usage, json_type::object)) return true;
  if (!open_member(usage_key, usage, object, chunk.usage)) return false;
  chunk.usage_seen = true;
  EventFacts& facts = chunk.facts;
  return for_each_field(object, [&](raw_json_string key, value& part) {
    if (key == "prompt_tokens") {
      facts.prompt_tokens = count_of(part);
    } else if (key == "completion_tokens") {
      facts.completion_tokens = count_of(part);
    } else if (key == "prompt_tokens_details") {
      return for_each_field_in(part, [&](raw_json_string name, value& count) {
        if (name == "cached_tokens") facts.cached_tokens = count_of(count);
        return true;
      });
    } else if (key == "completion_tokens_details") {
      return for_each_field_in(part, [&](raw_json_string name, value& count) {
        if (name == "reasoning_tokens") facts.reasoning_tokens = count_of(count);
        return true;
      });
    } else if (key == "reasoning_tokens" && !facts.reasoning_tokens) {
      facts.reasoning_tokens = told_by_sglang(count_of(part));
    }
    return true;
  });
}

/// Takes counts that the usage object lacks from llama.cpp's counters.
void complete_from(const EngineReport& timings, EventFacts& facts) {
  if (!facts.completion_tokens) facts.completion_tokens = timings.predicted;
  if (!facts.cached_tokens) facts.cached_tokens = timings.prompt_cached;
  if (!facts.prompt_tokens) facts.prompt_tokens = timings.prompt();
  facts.engine = timings;
  facts.timed = timings.predicted.has_value();
}

/// Records the members beside the choices of an event that has some.
void tell_members(std::string_view data, Chunk& chunk) {
  EventFacts& facts = chunk.facts;
  const auto any = [&](bool ChoiceFacts::* flag) { return std::ranges::any_of(facts.choices, flag); };
  // llama.cpp has no usage on every chunk by request: usage beside its timings comes unasked.
  if (!facts.timed) facts.usage_member = chunk.usage;
  if (any(&ChoiceFacts::finished)) return;
  facts.timings_member = chunk.timed;
  const bool may_be_bare = chunk.usage_seen && !facts.error && !facts.prefill_progress && !any(&ChoiceFacts::token);
  facts.bare_usage = may_be_bare && choices_bring_nothing(data);
}

bool is_plain(const Chunk& chunk) {
  const EventFacts& facts = chunk.facts;
  if (chunk.strings != 1 || chunk.text.empty() || facts.choices.size() != 1) return false;
  const ChoiceFacts& choice = facts.choices.front();
  return !choice.finished && !choice.tokens && !chunk.more_seen && !chunk.usage_seen && !facts.engine && !facts.error &&
         !facts.prefill_progress;
}

bool read_event(std::string_view data, EventFacts& facts) {
  Chunk chunk{.facts = facts};
  const bool whole = for_each_field_of(data, [&](raw_json_string key, value& part) {
    if (key == "choices") return read_choices(part, chunk);
    if (key == "usage") return read_usage(key, part, chunk);
    if (key == "object") {
      facts.error |= string_of(part) == "error";
    } else if (key == "error") {
      facts.error |= says_error(part);
    } else if (key == "prompt_progress") {
      facts.prefill_progress |= !is_null(part);
    } else if (key == "timings" && is(part, json_type::object)) {
      simdjson::ondemand::object object;
      return open_member(key, part, object, chunk.timed) &&
             read_figures(object, llamacpp_timings, chunk.timings.emplace());
    } else if (key == "metrics" && is(part, json_type::object)) {
      return read_vllm_metrics(part, facts.engine.emplace());
    }
    return true;
  });
  if (!whole) return false;
  if (chunk.timings) complete_from(*chunk.timings, facts);
  facts.carries_choice = !facts.choices.empty();
  // A gateway may leave the empty list of choices out.
  facts.usage_only = facts.choices.empty() && chunk.usage_seen && !facts.error && !facts.prefill_progress;
  facts.of_one_choice = facts.usage_only && facts.timed;
  if (facts.carries_choice && (chunk.usage_seen || chunk.timings)) tell_members(data, chunk);
  // SGLang finishes an answer that its full queue refuses with this word alone.
  const bool any_token = std::ranges::any_of(facts.choices, &ChoiceFacts::token);
  if (facts.finish_reason == "abort" && !any_token) facts.error_status = EventFacts::no_room;
  facts.opens_choices = facts.carries_choice && !any_token && !facts.error && !facts.prefill_progress &&
                        std::ranges::none_of(facts.choices, &ChoiceFacts::finished) &&
                        choices_bring_nothing(data, true);
  if (is_plain(chunk)) facts.plain_text = chunk.text;
  return true;
}

// llama.cpp serves the OpenAI routes without /v1 too, but its /completions is a format of its own.
constexpr Route chat_routes[] = {{"/v1/chat/completions"}, {"/chat/completions"}};
constexpr Route completions_routes[] = {{"/v1/completions"}};

using In = RequestPlace;
constexpr RequestMember chat_request[] = {
    {In::root, "stream_options", In::stream_options},
    {In::stream_options, "include_usage", In::include_usage},
    {In::root, "timings_per_token", In::timings_per_token},
    {In::root, "max_tokens", In::max_tokens},
    {In::root, "max_completion_tokens", In::preferred_max_tokens},
    {In::root, "n", In::n},
    {In::root, "temperature", In::temperature},
    {In::root, "messages", In::messages},
    {In::root, "tools", In::tools, RequestSource::tools},
    {In::root, "functions", In::tools, RequestSource::tools},
    {In::root, "tool_choice", In::tool_choice},
    {In::root, "system", In::system, RequestSource::system},
    {In::message, "reasoning_content", In::text},
    {In::message, "reasoning", In::text},
    {In::message, "function_call", In::text_tree},
};
constexpr RequestMember completions_request[] = {
    {In::root, "stream_options", In::stream_options},
    {In::stream_options, "include_usage", In::include_usage},
    {In::root, "timings_per_token", In::timings_per_token},
    {In::root, "max_tokens", In::max_tokens},
    {In::root, "n", In::n},
    {In::root, "temperature", In::temperature},
    {In::root, "prompt", In::prompt},
    {In::root, "suffix", In::text, RequestSource::suffix},
    {In::root, "echo", In::whole_prompt_if},  // With logprobs, which are those of the prompt, too.
};

using Place = AnswerPlace;
constexpr AnswerMember answer[] = {
    {Place::root, "object", Place::object_name},
    {Place::root, "choices", Place::choices},
    {Place::choice, "message", Place::message},
    {Place::choice, "text", Place::text},
    {Place::choice, "finish_reason", Place::finish_reason},
    {Place::message, "content", Place::content},
    {Place::message, "refusal", Place::content},
    {Place::part, "text", Place::text},
    {Place::message, "reasoning_content", Place::reasoning_content},
    {Place::message, "reasoning", Place::reasoning},
    {Place::message, "tool_calls", Place::calls},
    {Place::message, "function_call", Place::calls},
    {Place::calls, "name", Place::call_name},
    {Place::calls, "arguments", Place::arguments},
    {Place::calls, "function", Place::call_function},
    {Place::call_function, "name", Place::call_name},
    {Place::call_function, "arguments", Place::arguments},
    {Place::root, "usage", Place::usage},
    counts(Place::usage, "prompt_tokens", &AnswerCounts::prompt),
    counts(Place::usage, "completion_tokens", &AnswerCounts::completion),
    {Place::usage, "prompt_tokens_details", Place::prompt_details},
    counts(Place::prompt_details, "cached_tokens", &AnswerCounts::cached),
    {Place::usage, "completion_tokens_details", Place::completion_details},
    counts(Place::completion_details, "reasoning_tokens", &AnswerCounts::reasoning),
    counts(Place::usage, "reasoning_tokens", &AnswerCounts::native_reasoning),
    {Place::root, "timings", Place::timings},
    {Place::root, "metrics", Place::metrics},
    {Place::metrics, vllm_drafts_key, Place::drafts},
};
constexpr AnswerFigures figures[] = {
    {Place::timings, llamacpp_timings}, {Place::metrics, vllm_metrics}, {Place::drafts, vllm_drafts}};

}  // namespace

constinit const Dialect dialects::openai_chat{
    .api = Api::openai_chat,
    .routes = chat_routes,
    .request_members = chat_request,
    .takes_stream_options = true,
    .read_event = read_event,
    .answer_members = answer,
    .answer_figures = figures,
};

constinit const Dialect dialects::openai_completions{
    .api = Api::openai_completions,
    .routes = completions_routes,
    .request_members = completions_request,
    .takes_stream_options = true,
    .read_event = read_event,
    .answer_members = answer,
    .answer_figures = figures,
};

}  // namespace weir::metrics::wire

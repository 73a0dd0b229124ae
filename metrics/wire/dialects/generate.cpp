// The engines' own /generate streams: TGI and SGLang share the route, and their shape tells them apart.
//
// TGI sends one event a token, special ones too. Its end is an event whose generated_text is not null. SGLang sends
// text and output_ids either as a whole that grows or only what is new, by a setting of the server. Its meta_info
// counts in both cases.
#include "metrics/wire/dialects/dialect.hpp"
#include "metrics/wire/engine/report.hpp"
#include "metrics/wire/json/writer.hpp"

namespace weir::metrics::wire {

namespace {

using simdjson::ondemand::json_type;
using simdjson::ondemand::raw_json_string;
using simdjson::ondemand::value;

bool read_token(value& token, EventFacts& facts, ChoiceFacts& choice) {
  bool special = false;
  bool any = false;
  std::uint64_t chars = 0;
  std::string_view text;
  const bool whole = for_each_field_in(token, [&](raw_json_string key, value& part) {
    if (key == "text") return read_text(part, chars, any, text);
    if (key == "special") special = is_true(part);
    return true;
  });
  choice.token = choice.output = true;
  choice.tokens = 1;
  if (special) return whole;
  facts.output_chars += chars;
  facts.add_content(ContentPart::What::text, text);
  return whole;
}

bool read_details(value& details, EventFacts& facts) {
  return for_each_field_in(details, [&](raw_json_string key, value& part) {
    if (key == "finish_reason") {
      facts.finish_reason = string_of(part).value_or("");
    } else if (key == "generated_tokens") {
      facts.completion_tokens = count_of(part);
    } else if (key == "input_length") {
      facts.prompt_tokens = count_of(part);
    }
    return true;
  });
}

bool read_meta_info(value& info, EventFacts& facts) {
  EngineReport report;
  const bool whole = for_each_field_in(info, [&](raw_json_string key, value& part) {
    if (key == "prompt_tokens") {
      facts.prompt_tokens = count_of(part);
    } else if (key == "reasoning_tokens") {
      facts.reasoning_tokens = told_by_sglang(count_of(part));
    } else if (key == "cached_tokens") {
      facts.cached_tokens = count_of(part);
    } else if (key == "completion_tokens") {
      facts.completion_tokens = count_of(part);
    } else if (key == "finish_reason") {
      return for_each_field_in(part, [&](raw_json_string name, value& type) {
        if (name == "type") facts.finish_reason = string_of(type).value_or("");
        return true;
      });
    } else {
      take_figure(key, part, sglang_meta_info, report);
    }
    return true;
  });
  if (report.total) facts.engine = report;
  return whole;
}

void end_sglang_event(EventFacts& facts, ChoiceFacts& choice, bool text, const std::optional<std::uint64_t>& ids) {
  facts.error = gave_up(facts.finish_reason);  // What it had made before still counts.
  // The same text may come again, so only the count shows whether something is new.
  choice.token = !facts.completion_tokens && (text || ids.value_or(0) > 0);
  choice.output = true;
  choice.finished = !facts.finish_reason.empty();
  facts.whole_text = true;
  facts.listed_tokens = ids;
  // Samples of one prompt share it. The first one's cached tokens are the request's.
  if (choice.index > 0) facts.cached_tokens.reset();
}

bool read_event(std::string_view data, EventFacts& facts) {
  ChoiceFacts choice;
  bool sglang = false;
  bool text = false;
  std::optional<std::uint64_t> ids;
  std::uint32_t index = 0;
  const bool whole = for_each_field_of(data, [&](raw_json_string key, value& part) {
    if (key == "token" && is(part, json_type::object)) return read_token(part, facts, choice);
    if (key == "details") return read_details(part, facts);
    if (key == "text") return read_content(part, facts, ContentPart::What::text, text);
    if (key == "output_ids") return count_elements(part, ids);
    if (key == "meta_info") {
      sglang = true;
      return read_meta_info(part, facts);
    }
    if (key == "index") {
      index = index_of(part);  // SGLang's choice; TGI's `index` is the token's number.
    } else if (key == "generated_text") {
      choice.finished |= !is_null(part);
    } else if (key == "error") {
      facts.error |= says_error(part);
    }
    return true;
  });
  if (!whole) return false;
  if (facts.error) return true;
  if (sglang) {
    choice.index = index;
    end_sglang_event(facts, choice, text, ids);
  } else {
    facts.one_token_an_event = true;
    facts.marker = choice.finished;
  }
  facts.carries_choice = !facts.error;
  facts.choices.push_back(choice);
  return true;
}

// The route is TGI's until the body tells. Only TGI says by `parameters` and path how it samples and whether it
// streams.
constexpr Route tgi_routes[] = {
    {"/", Streams::if_asked}, {"/generate", Streams::never}, {"/generate_stream", Streams::always}};
constexpr Route sglang_routes[] = {
    {"/", Streams::if_asked}, {"/generate", Streams::if_asked}, {"/generate_stream", Streams::always}};

using In = RequestPlace;
constexpr RequestMember request[] = {
    // TGI.
    {In::root, "inputs", In::text},
    {In::root, "parameters", In::options},
    {In::options, "max_new_tokens", In::max_tokens},
    {In::options, "best_of", In::n},
    {In::options, "adapter_id", In::seed_tree},
    {In::options, "truncate", In::whole_prompt},
    {In::options, "decoder_input_details", In::whole_prompt_if},
    {In::options, "do_sample", In::do_sample},
    {In::options, "top_k", In::top_k},
    {In::options, "top_p", In::top_p},
    {In::options, "typical_p", In::typical_p},
    {In::options, "temperature", In::temperature},
    // SGLang.
    {In::root, "text", In::prompt, RequestSource::text},
    {In::root, "input_ids", In::prompt, RequestSource::input_ids},
    {In::root, "image_data", In::images, RequestSource::sglang_images},
    {In::root, "logprob_start_len", In::logprob_start},
    {In::root, "sampling_params", In::sampling_params},
    {In::sampling_params, "max_new_tokens", In::max_tokens},
    {In::sampling_params, "n", In::n},
    {In::sampling_params, "temperature", In::temperature},
};
constexpr RequestSources sglang_sources =
    only(RequestSource::text) | only(RequestSource::input_ids) | only(RequestSource::sglang_images);

/// A TGI request has `inputs`.
Api told_by_sources(RequestSources there) {
  const bool tgi = contains(there, RequestSource::prompt);
  const bool sglang = contains(there, RequestSource::text) || contains(there, RequestSource::input_ids);
  return sglang && !tgi ? Api::sglang_generate : Api::tgi_generate;
}

/// TGI samples as soon as a request has an option that only sampling uses.
bool tgi_is_greedy(const Sampling& asked) {
  return !asked.do_sample && asked.temperature.value_or(1) == 1 && !asked.top_k && !asked.top_p && !asked.typical_p;
}

using Place = AnswerPlace;
constexpr AnswerMember tgi_answer[] = {
    {Place::root, "generated_text", Place::text},
    {Place::root, "details", Place::details},
    {Place::details, "finish_reason", Place::finish_reason},
    counts(Place::details, "generated_tokens", &AnswerCounts::native_completion),
    counts(Place::details, "input_length", &AnswerCounts::native_prompt),
    {Place::details, "best_of_sequences", Place::sequences},
    counts(Place::sequences, "generated_tokens", &AnswerCounts::native_others),
};
constexpr AnswerMember sglang_answer[] = {
    {Place::root, "text", Place::text},
    {Place::root, "output_ids", Place::ids},
    {Place::root, "meta_info", Place::meta_info},
    {Place::meta_info, "finish_reason", Place::native_reason},
    {Place::native_reason, "type", Place::native_reason_type},
    counts(Place::meta_info, "prompt_tokens", &AnswerCounts::native_prompt),
    counts(Place::meta_info, "completion_tokens", &AnswerCounts::native_completion),
    counts(Place::meta_info, "cached_tokens", &AnswerCounts::native_cached),
    counts(Place::meta_info, "reasoning_tokens", &AnswerCounts::native_reasoning),
};
constexpr AnswerFigures sglang_figures[] = {{Place::meta_info, sglang_meta_info}};

std::string tgi_error_event(unsigned /*status*/, const OwnError& error) {
  JsonWriter event;
  event.open('{').key("error").text(error.message).key("error_type").text(error.type).close('}');
  return "data:" + event.written() + "\n\n";
}

}  // namespace

constinit const Dialect dialects::tgi_generate{
    .api = Api::tgi_generate,
    .routes = tgi_routes,
    .request_members = request,
    .greedy = tgi_is_greedy,
    .told_by_sources = told_by_sources,
    .foreign_sources = sglang_sources,
    .read_event = read_event,
    .done_ends_stream = false,  // generated_text ends it.
    .answer_members = tgi_answer,
    .error_event = tgi_error_event,
};

constinit const Dialect dialects::sglang_generate{
    .api = Api::sglang_generate,
    .routes = sglang_routes,
    .request_members = request,
    .has_sampling_params = true,
    .read_event = read_event,
    .answer_members = sglang_answer,
    .answer_figures = sglang_figures,
};

}  // namespace weir::metrics::wire

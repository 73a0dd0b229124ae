// llama.cpp's own /completion: each event counts what has come so far. The last event has stop true and
// the timings.
#include "metrics/wire/dialects/dialect.hpp"
#include "metrics/wire/engine/report.hpp"

namespace weir::metrics::wire {

namespace {

using simdjson::ondemand::json_type;
using simdjson::ondemand::raw_json_string;
using simdjson::ondemand::value;

bool read_event(std::string_view data, EventFacts& facts) {
  ChoiceFacts choice;
  EngineReport timings;
  std::optional<std::uint64_t> ids;
  std::string_view stop_type;
  const bool whole = for_each_field_of(data, [&](raw_json_string key, value& part) {
    if (key == "content") return read_content(part, facts, ContentPart::What::text, choice.token);
    if (key == "tokens") return count_elements(part, ids);
    if (key == "timings") {
      simdjson::ondemand::object object;
      return !is(part, json_type::object) ||
             (part.get_object().get(object) == simdjson::SUCCESS && read_figures(object, llamacpp_timings, timings));
    }
    if (key == "index") {
      choice.index = index_of(part);
    } else if (key == "stop") {
      choice.finished = is_true(part);
    } else if (key == "tokens_predicted") {
      facts.completion_tokens = count_of(part);
    } else if (key == "tokens_evaluated") {
      facts.prompt_tokens = count_of(part);
    } else if (key == "stop_type") {
      stop_type = string_of(part).value_or("");
    } else if (key == "prompt_progress") {
      facts.prefill_progress |= !is_null(part);
    } else if (key == "error") {
      facts.error |= says_error(part);
    }
    return true;
  });
  if (!whole) return false;
  if (facts.error) return true;
  choice.token |= ids.value_or(0) > 0;
  choice.output = true;
  if (!facts.completion_tokens) facts.completion_tokens = timings.predicted;
  if (!facts.prompt_tokens) facts.prompt_tokens = timings.prompt();
  facts.cached_tokens = timings.prompt_cached;
  const EngineFigures& said = timings;
  if (said != EngineFigures{}) facts.engine = said;
  if (choice.finished) facts.finish_reason = stop_type;
  facts.marker = choice.finished;
  facts.carries_choice = true;
  facts.choices.push_back(choice);
  return true;
}

constexpr Route routes[] = {{"/completion"}, {"/completions"}};

using In = RequestPlace;
constexpr RequestMember request[] = {
    {In::root, "max_tokens", In::max_tokens},
    {In::root, "n_predict", In::preferred_max_tokens},
    {In::root, "n", In::n},
    {In::root, "n_cmpl", In::n},
    {In::root, "temperature", In::temperature},
    {In::root, "prompt", In::prompt},
    // A prompt with images is an object.
    {In::prompt, "prompt_string", In::text},
    {In::prompt, "multimodal_data", In::images},
};

using Place = AnswerPlace;
constexpr AnswerMember answer[] = {
    {Place::root, "content", Place::content},
    {Place::root, "stop_type", Place::finish_reason},
    counts(Place::root, "tokens_predicted", &AnswerCounts::native_completion),
    counts(Place::root, "tokens_evaluated", &AnswerCounts::native_prompt),
    {Place::root, "timings", Place::timings},
};
constexpr AnswerFigures figures[] = {{Place::timings, llamacpp_timings}};

}  // namespace

constinit const Dialect dialects::llamacpp_completion{
    .api = Api::llamacpp_completion,
    .routes = routes,
    .request_members = request,
    .read_event = read_event,
    .marks_each_prompt = true,
    .answer_members = answer,
    .answer_figures = figures,
};

}  // namespace weir::metrics::wire

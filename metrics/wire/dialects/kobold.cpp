// KoboldAI's stream as Aphrodite serves it has text only. It has no counts and no end marker.
#include "metrics/wire/dialects/dialect.hpp"

namespace weir::metrics::wire {

namespace {

using simdjson::ondemand::raw_json_string;
using simdjson::ondemand::value;

bool read_event(std::string_view data, EventFacts& facts) {
  ChoiceFacts choice;
  const bool whole = for_each_field_of(data, [&](raw_json_string key, value& part) {
    if (key == "token") return read_content(part, facts, ContentPart::What::text, choice.token);
    if (key == "finish_reason") {
      facts.finish_reason = string_of(part).value_or("");
    } else if (key == "error") {
      facts.error |= says_error(part);
    }
    return true;
  });
  if (!whole) return false;
  if (facts.error) return true;
  choice.output = choice.token;
  choice.finished = !facts.finish_reason.empty();
  facts.carries_choice = true;
  facts.choices.push_back(choice);
  return true;
}

constexpr Route routes[] = {
    {"/api/extra/generate/stream", Streams::always},
    {"/api/v1/generate", Streams::never},
    {"/api/latest/generate", Streams::never},
};

using In = RequestPlace;
constexpr RequestMember request[] = {
    {In::root, "max_length", In::max_tokens},
    {In::root, "n", In::n},
    {In::root, "temperature", In::temperature},
    {In::root, "prompt", In::prompt},
    {In::root, "memory", In::text, RequestSource::system},
    {In::root, "images", In::images, RequestSource::images},
};

using Place = AnswerPlace;
constexpr AnswerMember answer[] = {
    {Place::root, "results", Place::choices},
    {Place::choice, "text", Place::text},
    {Place::choice, "finish_reason", Place::finish_reason},
};

}  // namespace

constinit const Dialect dialects::kobold_generate{
    .api = Api::kobold_generate,
    .routes = routes,
    .request_members = request,
    .read_event = read_event,
    .end = StreamEnd::whole_json,
    .answer_members = answer,
};

}  // namespace weir::metrics::wire

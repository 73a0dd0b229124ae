#include "proxy/control/rollout_api.hpp"

#include <simdjson.h>

#include <utility>

#include "config/rollouts.hpp"

namespace weir::proxy::control {
namespace {

namespace ro = balancer::rollout;

void write_counts(metrics::wire::JsonWriter& json, const ro::Counts& counts, double share) {
  json.open('{').key("candidate").count(counts.candidate).key("candidate_bad").count(counts.candidate_bad);
  json.key("stable").count(counts.stable).key("stable_bad").count(counts.stable_bad);
  json.key("evidence").decimal(ro::evidence(counts, share)).close('}');
}

void write_drawn(metrics::wire::JsonWriter& json, const ro::Drawn& drawn, double share) {
  json.open('{').key("candidate").count(drawn.candidate).key("stable").count(drawn.stable);
  json.key("evidence").decimal(ro::evidence(drawn, share)).close('}');
}

/// Writes what counts against the candidate.
void write_evidence(metrics::wire::JsonWriter& json, const ro::Standing& standing) {
  json.key("failures");
  write_counts(json, standing.failures, standing.share);
  json.key("misses");
  write_counts(json, standing.misses, standing.share);
  json.key("refusals");
  write_drawn(json, standing.refusals, standing.share);
  json.key("hangs");
  write_drawn(json, standing.hangs, standing.share);
}

}  // namespace

std::optional<Promotion> promotion_in(std::string_view body) {
  Promotion promotion;
  if (body.find_first_not_of(" \t\r\n") == body.npos) return promotion;
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  if (parser.parse(body.data(), body.size()).get(object)) return std::nullopt;
  for (const auto& [name, value] : object) {
    std::string_view text;
    if ((name != "from" && name != "to") || value.get(text)) return std::nullopt;
    (name == "from" ? promotion.from : promotion.to) = text;
  }
  return promotion;
}

ApiAnswer answer_of(const std::string& name, const ro::Move& move) {
  metrics::wire::JsonWriter json;
  json.open('{').key("name").text(name).key("reason").text(ro::name_of(move.reason)).key("move").text(move.line);
  json.close('}');
  return {200, std::move(json).written() + "\n"};
}

ApiAnswer not_now(const std::string& sentence) { return api_error(409, "not_now", sentence); }

void write_rollout(metrics::wire::JsonWriter& json, const ro::Follower& follower, std::uint64_t crossed) {
  const auto& machine = follower.machine;
  const auto& settings = machine.settings();
  const auto& standing = machine.standing();
  json.open('{').key("name").text(settings.name).key("pool").text(settings.pool);
  json.key("candidate").text(settings.candidate);
  json.key("shadow").known_text(settings.shadow).key("slo").known_text(settings.slo);
  json.key("state").text(ro::name_of(standing.state)).key("step").known_text(machine.step_text());
  json.key("share").exact(standing.share).key("why").text(standing.why);
  json.key("steps").open('[');
  for (const auto& step : settings.steps) json.text(config::to_text(step));
  json.close(']');
  const bool in_step = !machine.step_text().empty();
  const auto least = in_step ? std::optional(settings.steps[standing.step].least.count()) : std::nullopt;
  json.key("in_step_seconds").exact(standing.in_step).key("least_seconds").exact(least);
  json.key("unknown_seconds").exact(standing.unknown);
  json.key("unknown_limit_seconds").exact(settings.unknown_limit.count());
  json.key("gate").open('{').key("word").text(ro::name_of(follower.gate().value_or(ro::Word::unknown)));
  const bool in_question = in_step && standing.state != ro::State::done;
  json.key("why").text(in_question ? follower.gate_why() : "").close('}');
  write_evidence(json, standing);
  const auto wait = follower.wait();
  json.key("longest_wait_seconds").exact(wait ? std::optional(wait->count()) : std::nullopt);
  json.key("evidence_limit").exact(machine.evidence_limit());
  json.key("crossed").count(crossed).close('}');
}

}  // namespace weir::proxy::control

#include <simdjson.h>

#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string_view>

#include "balancer/rollout/machine.hpp"
#include "config/controls.hpp"
#include "config/rollouts.hpp"
#include "config/values.hpp"
#include "metrics/text.hpp"
#include "metrics/wire/json/writer.hpp"
#include "proxy/commands/client.hpp"
#include "proxy/commands/commands.hpp"

namespace weir::proxy::commands {
namespace {

namespace ro = balancer::rollout;
using simdjson::dom::element;

/// Whatever answers at that address, it does not steer the terminal.
std::string text_in(element value) { return value.is_null() ? "" : config::printable(value.get_string().value()); }

std::string time_of(double seconds) { return config::format_duration(config::Seconds(std::round(seconds))); }

std::string evidence_text(double evidence, double limit) {
  return fmt::format("; evidence {:.3g} of {:g}\n", evidence, limit);
}

/// "  failures: 0 of 152 on the candidate, 3 of 15100 beside it; evidence 0.02 of 160"
std::string line_of(const std::string& what, const ro::Counts& counts, double share, double limit) {
  return "  " + what + ": " + std::to_string(counts.candidate_bad) + " of " + std::to_string(counts.candidate) +
         " on the candidate, " + std::to_string(counts.stable_bad) + " of " + std::to_string(counts.stable) +
         " beside it" + evidence_text(ro::evidence(counts, share), limit);
}

/// "  refusals: 4 conversations on the candidate, 0 beside it; evidence 31.2 of 240"
std::string line_of(const std::string& what, const ro::Drawn& drawn, double share, double limit) {
  return "  " + what + ": " + std::to_string(drawn.candidate) + " conversations on the candidate, " +
         std::to_string(drawn.stable) + " beside it" + evidence_text(ro::evidence(drawn, share), limit);
}

std::string text_of(element rollout) {
  const auto read = ro::standing_in(rollout);
  if (!read) throw std::runtime_error("weir answered something else than a rollout; is it of another version?");
  const auto& standing = *read;
  const auto name = text_in(rollout["name"]), step = text_in(rollout["step"]), why = config::printable(standing.why);
  const auto at_step = step.empty() ? "" : " at step \"" + step + '"';
  auto text = name + ": " + std::string(ro::name_of(standing.state)) + at_step + ", " +
              config::percent(standing.share) + " of pool " + text_in(rollout["pool"]) + " to " +
              text_in(rollout["candidate"]) + '\n';
  if (!why.empty()) text += "  " + why + '\n';
  if (standing.state == ro::State::idle && why.empty())
    text += "  it has not been started: weir rollout start " + name + " does so\n";
  if (step.empty() || standing.state == ro::State::done) return text;
  const double least = rollout["least_seconds"], unknown_limit = rollout["unknown_limit_seconds"];
  text += "  " + time_of(standing.in_step) + " in this step, which lasts " + time_of(least) + " at least\n";
  const auto gate_why = text_in(rollout["gate"]["why"]);
  text += "  gate: " + text_in(rollout["gate"]["word"]) + (gate_why.empty() ? "" : ": " + gate_why) + '\n';
  if (standing.unknown > 0)
    text += "  unknown for " + time_of(standing.unknown) + "; it pauses after " + time_of(unknown_limit) + '\n';
  const double share = standing.share, limit = rollout["evidence_limit"];
  if (share <= 0) return text;
  text += line_of("failures", standing.failures, share, limit);
  if (const auto slo = text_in(rollout["slo"]); !slo.empty())
    text += line_of("misses of " + slo, standing.misses, share, limit);
  text += line_of("refusals", standing.refusals, share, limit);
  return text + line_of("hangs", standing.hangs, share, limit);
}

/// Returns the body that promotes a rollout from where it stands in this answer to GET /api/rollout. Where it has moved
/// since, nothing happens.
std::string promotion(const std::string& answer, const RolloutOptions& options, const std::string& name) {
  metrics::wire::JsonWriter json;
  json.open('{');
  simdjson::dom::parser parser;
  for (const auto one : parser.parse(answer)["rollouts"]) {
    const auto step = text_in(one["step"]);
    if (text_in(one["name"]) == name && !step.empty()) json.key("from").text(step.substr(0, step.find(' ')));
  }
  if (!options.to.empty()) json.key("to").text(options.to);
  return std::move(json.close('}')).written();
}

/// Returns the only rollout's name.
std::string only_name(const std::string& answer) {
  simdjson::dom::parser parser;
  std::string names;
  std::size_t count = 0;
  for (const auto one : parser.parse(answer)["rollouts"]) {
    names += (names.empty() ? "" : ", ") + text_in(one["name"]);
    ++count;
  }
  if (count == 0)
    throw std::runtime_error("the settings have no [[rollout]]; docs/guides/rollout.md says how to write one");
  if (count > 1) throw std::runtime_error("say which rollout: " + names);
  return names;
}

}  // namespace

std::string rollout_text(const std::string& answer, const std::string& name) {
  simdjson::dom::parser parser;
  const auto parsed = parser.parse(answer);
  std::string text;
  for (const auto one : parsed["rollouts"])
    if (name.empty() || text_in(one["name"]) == name) text += text_of(one);
  if (text.empty() && !name.empty()) throw std::runtime_error("no rollout is named '" + name + "'");
  if (text.empty()) text = "the settings have no [[rollout]]\n";
  if (const auto error = text_in(parsed["state_error"]); !error.empty()) text += error + '\n';
  return text;
}

int rollout(const RolloutOptions& options) {
  return run_command("rollout", [&] {
    const auto admin = admin_at(options.admin);
    const auto list = [&] { return body_of(ask_admin(admin, "GET", "/api/rollout")); };
    if (options.action == "status") {
      const auto answer = list();
      const auto text =
          options.json ? config::printable(answer, config::LineFeeds::kept) : rollout_text(answer, options.name);
      std::fputs(text.c_str(), stdout);
      return 0;
    }
    const bool promotes = options.action == "promote";
    if (!options.to.empty() && !promotes) throw std::runtime_error("--to is for promote alone");
    const auto standing = options.name.empty() || promotes ? list() : "";
    const auto name = options.name.empty() ? only_name(standing) : options.name;
    const auto body = promotes ? promotion(standing, options, name) : "{}";
    const auto answer = body_of(ask_admin(admin, "POST", "/api/rollout/" + name + "/" + options.action, body));
    simdjson::dom::parser parser;
    std::printf("%s\n", text_in(parser.parse(answer)["move"]).c_str());
    return 0;
  });
}

}  // namespace weir::proxy::commands

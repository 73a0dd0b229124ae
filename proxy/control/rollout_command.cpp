#include <simdjson.h>

#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string_view>

#include "config/controls.hpp"
#include "config/quantity.hpp"
#include "config/rollouts.hpp"
#include "metrics/wire/json/writer.hpp"
#include "proxy/control/client.hpp"
#include "proxy/control/commands.hpp"

namespace weir::proxy::control {
namespace {

using simdjson::dom::element;

/// Whatever answers at that address, it does not steer the terminal.
std::string text_in(element value) { return value.is_null() ? "" : config::printable(value.get_string().value()); }

std::string time_of(double seconds) { return config::format_duration(config::Seconds(std::round(seconds))); }

/// "  failures: 0 of 152 on the candidate, 3 of 15100 beside it; evidence 0.02 of 160"
std::string counts_line(std::string_view what, element counts, double limit) {
  const auto number = [&](const char* key) { return std::to_string(counts[key].get_uint64().value()); };
  char evidence[64];
  std::snprintf(evidence, sizeof evidence, "%.3g of %g", counts["evidence"].get_double().value(), limit);
  return "  " + std::string(what) + ": " + number("candidate_bad") + " of " + number("candidate") +
         " on the candidate, " + number("stable_bad") + " of " + number("stable") + " beside it; evidence " + evidence +
         "\n";
}

/// "  refusals: 4 conversations on the candidate, 0 beside it; evidence 31.2 of 240"
std::string drawn_line(std::string_view what, element drawn, double limit) {
  char text[160];
  std::snprintf(text, sizeof text, "  %.*s: %llu conversations on the candidate, %llu beside it; evidence %.3g of %g\n",
                static_cast<int>(what.size()), what.data(),
                static_cast<unsigned long long>(drawn["candidate"].get_uint64().value()),
                static_cast<unsigned long long>(drawn["stable"].get_uint64().value()),
                drawn["evidence"].get_double().value(), limit);
  return text;
}

std::string text_of(element rollout) {
  const auto state = text_in(rollout["state"]), step = text_in(rollout["step"]);
  const double share = rollout["share"];
  auto text = text_in(rollout["name"]) + ": " + state + (step.empty() ? "" : " at step \"" + step + '"') + ", " +
              config::percent(share) + " of pool " + text_in(rollout["pool"]) + " to " + text_in(rollout["candidate"]) +
              '\n';
  const auto why_there = text_in(rollout["why"]);
  if (!why_there.empty()) text += "  " + why_there + '\n';
  if (state == "idle" && why_there.empty())
    text += "  it has not been started: weir rollout start " + text_in(rollout["name"]) + " does so\n";
  if (state != "shadow" && state != "live" && state != "paused") return text;
  const double in_step = rollout["in_step_seconds"], least = rollout["least_seconds"];
  text += "  " + time_of(in_step) + " in this step, which lasts " + time_of(least) + " at least\n";
  const auto why = text_in(rollout["gate"]["why"]);
  text += "  gate: " + text_in(rollout["gate"]["word"]) + (why.empty() ? "" : ": " + why) + '\n';
  const double unknown = rollout["unknown_seconds"], unknown_limit = rollout["unknown_limit_seconds"];
  if (unknown > 0) text += "  unknown for " + time_of(unknown) + "; it pauses after " + time_of(unknown_limit) + '\n';
  if (share <= 0) return text;
  const double limit = rollout["evidence_limit"];
  text += counts_line("failures", rollout["failures"], limit);
  if (!rollout["slo"].is_null()) text += counts_line("misses of " + text_in(rollout["slo"]), rollout["misses"], limit);
  text += drawn_line("refusals", rollout["refusals"], limit);
  text += drawn_line("hangs", rollout["hangs"], limit);
  return text;
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

}  // namespace weir::proxy::control

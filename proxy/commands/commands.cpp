// The commands that ask a running weir: drain, undrain, bypass, reload, rollout, report.
//
// weir drain, undrain and bypass.
#include <signal.h>
#include <simdjson.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <variant>

#include "balancer/rollout/machine.hpp"
#include "config/address.hpp"
#include "config/controls.hpp"
#include "config/keys.hpp"
#include "config/load.hpp"
#include "config/rollouts.hpp"
#include "config/values.hpp"
#include "metrics/text.hpp"
#include "metrics/wire/json/writer.hpp"
#include "proxy/commands/client.hpp"
#include "proxy/commands/commands.hpp"

namespace weir::proxy::commands {
namespace {

constexpr std::chrono::milliseconds between_looks{200};

bool takes_requests(std::string_view state) { return state == "up" || state == "starting"; }

/// Calls look(replica) for the rows of /api/live of this name; one that leaves the settings may have a namesake there.
template <class Look>
void each_row(const Admin& admin, const std::string& name, const Look& look) {
  const auto answer = body_of(ask_admin(admin, "GET", "/api/live"));
  simdjson::dom::parser parser;
  for (const auto [row, one] : simdjson::dom::object(parser.parse(answer)["replicas"]))
    if (row == name || row.starts_with(name + " (leaving")) look(one);
}

/// The requests left on the replicas of a name.
struct Left {
  bool known = false, draining = false;
  std::uint64_t in_flight = 0;
};

Left look(const Admin& admin, const std::string& name) {
  Left left;
  each_row(admin, name, [&](const auto& one) {
    left.known = true;
    if (std::string_view(one["state"]) != "draining") return;
    left.draining = true;
    left.in_flight += std::uint64_t(one["in_flight"]);
  });
  return left;
}

int wait(const Admin& admin, const std::string& name) {
  for (;; std::this_thread::sleep_for(between_looks)) {
    const auto left = look(admin, name);
    if (!left.draining) {
      std::fprintf(stderr, left.known ? "%s drains no more: somebody has ended it\n" : "%s is gone\n", name.c_str());
      return left.known ? 1 : 0;
    }
    if (left.in_flight > 0) continue;
    std::printf("%s is drained: nothing is left on it\n", name.c_str());
    return 0;
  }
}

struct Readiness {
  bool takes = false;
  std::string state, reason;
};

/// Returns how the replica in the settings stands; a namesake may be leaving them.
Readiness readiness_of(const Admin& admin, const std::string& name) {
  Readiness last{false, "gone", "it is no longer in the settings"};
  each_row(admin, name, [&](const auto& one) {
    if (last.takes) return;
    last.state = config::printable(std::string_view(one["state"]));
    last.reason = config::printable(std::string_view(one["reason"]));
    last.takes = takes_requests(last.state) && !one["address"].is_null();
  });
  return last;
}

int wait_until_it_takes(const Admin& admin, const DrainOptions& options) {
  const auto until = std::chrono::steady_clock::now() + options.wait_at_most;
  for (;; std::this_thread::sleep_for(between_looks)) {
    const auto now = readiness_of(admin, options.replica);
    if (now.takes) {
      std::printf("%s takes requests\n", options.replica.c_str());
      return 0;
    }
    if (std::chrono::steady_clock::now() < until) continue;
    std::fprintf(stderr, "%s takes no requests after %g s: it is %s (%s)\n", options.replica.c_str(),
                 options.wait_at_most.count(), now.state.c_str(), now.reason.c_str());
    return 1;
  }
}

/// Says what has become of a replica that drains no more; with --wait its state is waited for.
void say_undrained(const DrainOptions& options, const std::string& answer) {
  const auto* const name = options.replica.c_str();
  simdjson::dom::parser parser;
  const auto told = parser.parse(answer);
  if (told["pardoned"]) std::printf("%s was ejected, and is back on probation\n", name);
  if (options.wait) return;
  const auto state = config::printable(told["state"].get_string().value()),
             reason = config::printable(told["reason"].get_string().value());
  if (takes_requests(state))
    std::printf("%s takes requests\n", name);
  else
    std::printf("%s drains no more, but it is %s (%s): it takes requests when that is over; --wait waits for it\n",
                name, state.c_str(), reason.c_str());
}

/// Returns weir's answer.
std::string ask(const Admin& admin, const DrainOptions& options, const std::string& what) {
  return body_of(ask_admin(admin, "POST", "/api/replicas/" + options.replica + "/" + what,
                           options.force ? R"({"force":true})" : "{}"));
}

}  // namespace

int drain(const DrainOptions& options) {
  return run_command("drain", [&] {
    const auto admin = admin_at(options.admin);
    ask(admin, options, "drain");
    if (options.wait) return wait(admin, options.replica);
    std::printf("%s drains: %llu requests are left on it\n", options.replica.c_str(),
                static_cast<unsigned long long>(look(admin, options.replica).in_flight));
    return 0;
  });
}

int undrain(const DrainOptions& options) {
  return run_command("undrain", [&] {
    const auto admin = admin_at(options.admin);
    say_undrained(options, ask(admin, options, "undrain"));
    return options.wait ? wait_until_it_takes(admin, options) : 0;
  });
}

int bypass(const AdminOptions& options, bool on) {
  return run_command("bypass", [&] {
    body_of(ask_admin(admin_at(options), "POST", on ? "/api/bypass/on" : "/api/bypass/off", "{}"));
    std::printf(on ? "bypass is on: weir relays what comes from now on, and reads none of it\n"
                   : "bypass is off: weir reads requests and answers again from now on\n");
    return 0;
  });
}

// weir reload, and what one would do: weir check --diff.

namespace {

constexpr int settings_are_wrong = 2;
constexpr std::chrono::milliseconds between_tries{100};
/// Another reload that is under way ends within this time.
constexpr std::chrono::seconds other_reload_ends_within{30};

void print_all(std::FILE* to, simdjson::dom::array texts) {
  for (const std::string_view text : texts) std::fprintf(to, "%s\n", config::printable(text).c_str());
}

int ask_for_reload(const Admin& admin) {
  const auto until = std::chrono::steady_clock::now() + other_reload_ends_within;
  for (;; std::this_thread::sleep_for(between_tries)) {
    const auto answered = ask_admin(admin, "POST", "/-/reload", "{}");
    simdjson::dom::parser parser;
    const auto told = parser.parse(answered.body);
    if (answered.status == 200 && told.error() == simdjson::SUCCESS) {
      const simdjson::dom::array changes = told["changes"];
      if (changes.size() == 0) std::printf("reloaded: nothing has changed\n");
      print_all(stdout, changes);
      return 0;
    }
    std::string_view code;
    if (told["error"]["code"].get(code)) code = "";
    if (code == "reload_under_way" && std::chrono::steady_clock::now() < until) continue;
    if (code == "bad_settings") print_all(stderr, told["errors"]);
    throw std::runtime_error(error_message(answered));
  }
}

int send_hup(int pid) {
  if (::kill(pid, SIGHUP) != 0)
    throw std::runtime_error("cannot send HUP to process " + std::to_string(pid) + ": " +
                             std::generic_category().message(errno) + "; name the process of weir");
  std::printf("HUP sent to process %d: weir's log says how the reload ends\n", pid);
  return 0;
}

/// Where to ask: as the command line says, and for the rest as the settings file does. Nothing if no listener is on.
std::optional<Admin> where_to_ask(const ReloadOptions& options, const config::Settings* settings) {
  if (settings != nullptr && !options.admin_given && !settings->admin.listen) return std::nullopt;
  auto where = options.admin;
  if (settings != nullptr && !options.admin_given) where.address = config::to_text(*settings->admin.listen);
  auto admin = admin_at(where);
  if (settings != nullptr && admin.token.empty()) admin.token = settings->admin.token;
  return admin;
}

int ask_or_send(const ReloadOptions& options, const config::Settings* settings) {
  const auto admin = where_to_ask(options, settings);
  if (!admin) {
    if (options.pid != 0) return send_hup(options.pid);
    throw std::runtime_error(options.file +
                             " switches the admin listener off, so nobody can be asked; name weir's process by --pid");
  }
  try {
    return ask_for_reload(*admin);
  } catch (const NoWeir& nobody) {
    if (options.pid == 0) throw;
    std::fprintf(stderr, "weir reload: %s\n", nobody.what());
    return send_hup(options.pid);
  }
}

bool names_a_file(const std::string& text) {
  std::error_code ignored;
  return text.ends_with(".toml") || std::filesystem::exists(text, ignored);
}

ListedSettings running(const AdminOptions& admin) {
  return listed_from(body_of(ask_admin(admin_at(admin), "GET", "/api/settings")));
}

/// Settings of the running weir's command line hold over a reload.
void leave_out(const std::vector<std::string>& overridden, config::Listing& listing) {
  std::erase_if(listing.front().keys,
                [&](const auto& one) { return std::ranges::find(overridden, one.key) != overridden.end(); });
}

int show(const config::Listing& before, const config::Listing& after, const std::string& file) {
  const auto changes = config::difference(before, after), only_by_restart = config::needs_restart(before, after);
  for (const auto& change : changes) std::printf("%s\n", config::printable(change).c_str());
  for (const auto& secret : config::cannot_tell(before, after))
    std::printf("%s: set in both; weir shows no secrets, so this cannot tell whether it changes\n",
                config::printable(secret).c_str());
  if (changes.empty()) std::printf("%s: a reload changes nothing\n", file.c_str());
  if (only_by_restart.empty()) return 0;
  for (const auto& change : only_by_restart)
    std::fprintf(stderr, "%s: only a restart changes this\n", config::printable(change).c_str());
  std::fprintf(stderr, "%s: a reload would fail\n", file.c_str());
  return 1;
}

}  // namespace

int reload(const ReloadOptions& options) {
  return run_command("reload", [&] {
    if (options.file.empty()) return ask_or_send(options, nullptr);
    const auto loaded = config::load_file(options.file);
    if (const auto* settings = std::get_if<config::Settings>(&loaded)) return ask_or_send(options, settings);
    for (const auto& error : std::get<std::vector<config::SettingsError>>(loaded))
      std::fprintf(stderr, "%s\n", error.text().c_str());
    return settings_are_wrong;
  });
}

ListedSettings listed_from(const std::string& text) {
  using simdjson::dom::array, simdjson::dom::object;
  const auto text_of = [](const auto& value) { return std::string(value.get_string().value()); };
  ListedSettings listed_settings;
  simdjson::dom::parser parser;
  const auto parsed = parser.parse(text);
  for (const auto one : array(parsed["settings"])) {
    config::Listed listed{text_of(one["name"]), text_of(one["within"]), {}};
    for (const auto& [key, value] : object(one["keys"])) listed.keys.push_back({std::string(key), text_of(value)});
    listed_settings.listing.push_back(std::move(listed));
  }
  for (const auto one : array(parsed["overridden"])) listed_settings.overridden.push_back(text_of(one));
  return listed_settings;
}

int show_difference(const config::Settings& settings, const std::string& file, const AdminOptions& old) {
  return run_command("check --diff", [&] {
    if (!names_a_file(old.address)) {
      auto [before, overridden] = running(old);
      auto after = config::listing_of(settings);
      leave_out(overridden, before);
      leave_out(overridden, after);
      return show(before, after, file);
    }
    const auto loaded = config::load_file(old.address);
    if (const auto* before = std::get_if<config::Settings>(&loaded))
      return show(config::listing_of(*before), config::listing_of(settings), file);
    for (const auto& error : std::get<std::vector<config::SettingsError>>(loaded))
      std::fprintf(stderr, "%s\n", error.text().c_str());
    return settings_are_wrong;
  });
}

namespace {

std::string default_name(bool json) {
  auto now = metrics::timestamp(std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()), 0);
  std::erase_if(now, [](char letter) { return letter == '-' || letter == ':'; });
  return "weir-report-" + now + (json ? ".json" : ".html");
}

}  // namespace

int report(const ReportOptions& options) {
  return run_command("report", [&] {
    if (std::error_code error; std::filesystem::equivalent(options.output, options.admin.token_file, error))
      throw std::runtime_error("--output \"" + options.output +
                               "\" holds the token, which would be lost; name another file");
    const auto path = "/api/report?last=" + options.last + (options.json ? "&format=json" : "");
    const auto text = body_of(ask_admin(admin_at(options.admin), "GET", path));
    if (options.output == "-") {
      if (!options.json && ::isatty(STDOUT_FILENO) != 0)
        throw std::runtime_error("a page is nothing for a terminal; name a file: --output report.html");
      std::fwrite(text.data(), 1, text.size(), stdout);
      if (std::fflush(stdout) != 0) throw std::runtime_error("standard output takes no more");
      return 0;
    }
    const auto name = options.output.empty() ? default_name(options.json) : options.output;
    config::begin_private(name);
    std::ofstream out(name, std::ios::binary);
    out << text;
    out.close();
    if (!out) throw std::runtime_error("cannot write \"" + name + "\"; name another file with --output");
    std::printf("%s\n", name.c_str());
    return 0;
  });
}

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

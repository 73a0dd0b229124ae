// This is the program `weir`, with its commands serve and check.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>

#include "config/command_line.hpp"
#include "config/load.hpp"
#include "proxy/probe/probe.hpp"
#include "proxy/serve/log_setup.hpp"
#include "proxy/serve/server.hpp"

namespace {

using weir::config::wrong_usage;

/// Returns the settings, or nothing after every error has been printed.
std::optional<weir::config::Settings> load(const std::string& file) {
  auto loaded = weir::config::load_file(file);
  if (auto* settings = std::get_if<weir::config::Settings>(&loaded)) return std::move(*settings);
  for (const auto& error : std::get<std::vector<weir::config::SettingsError>>(loaded))
    std::fprintf(stderr, "%s\n", error.text().c_str());
  return std::nullopt;
}

int serve(const std::string& file) {
  const auto settings = load(file);
  if (!settings) return wrong_usage;
  weir::proxy::serve::set_up_log(settings->log);
  return weir::proxy::serve::serve(*settings, WEIR_VERSION);
}

/// Checks the settings. Without `probing` no replica is asked.
int check(const std::string& file, const std::optional<weir::proxy::probe::ProbeOptions>& probing) {
  const auto settings = load(file);
  if (!settings) return wrong_usage;
  if (probing) return weir::proxy::probe::probe(*settings, *probing);
  std::size_t replicas = 0;
  for (const auto& pool : settings->pools) replicas += pool.replicas.size();
  std::printf("%s: fine: %zu pool%s, %zu replica%s\n", file.c_str(), settings->pools.size(),
              settings->pools.size() == 1 ? "" : "s", replicas, replicas == 1 ? "" : "s");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "weir stands in front of inference replicas, sends each request to the one with the fewest queued tokens, "
      "and measures every answer on its way.",
      "weir");
  app.set_version_flag("--version", std::string("weir ") + WEIR_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  weir check --config weir.toml          says every error of the file at once\n"
      "  weir check --config weir.toml --probe  asks the replicas too what they are and what they report\n"
      "  weir serve --config weir.toml          clients: 127.0.0.1:8080, numbers: 127.0.0.1:9090/metrics\n\n"
      "Exit status: 0 fine, 1 failed, 2 wrong usage or settings.\n"
      "Signals: TERM and INT drain, then stop; a second one stops at once. USR1 opens the request log anew, and "
      "until there is a reload HUP does the same.");
  std::string file;
  auto* serve_command = app.add_subcommand("serve", "Serve until a signal ends it");
  serve_command->add_option("-c,--config", file, "Settings file (TOML); docs/settings.md is the reference")->required();
  serve_command->footer(
      "Examples:\n"
      "  weir serve --config weir.toml\n"
      "  kill -TERM PID  drains: streams under way finish, then it ends with status 0");
  auto* check_command =
      app.add_subcommand("check", "Say whether a settings file is right, and every error if it is not");
  check_command->add_option("-c,--config", file, "Settings file (TOML)")->required();
  bool probing = false;
  weir::proxy::probe::ProbeOptions probe_options;
  double timeout = probe_options.timeout.count();
  auto* probe_flag = check_command->add_flag(
      "--probe", probing,
      "Ask every replica what it is and what it reports, measure one short stream on each, and say what to switch on");
  check_command->add_option("--timeout", timeout, "With --probe: seconds that each stream may take")
      ->needs(probe_flag)
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  check_command->add_flag("--json", probe_options.json, "With --probe: one JSON object a replica and line")
      ->needs(probe_flag);
  check_command->footer(
      "Examples:\n"
      "  weir check --config weir.toml\n"
      "  weir check --config weir.toml --probe --timeout 120\n"
      "  weir check --config weir.toml --probe --json | jq .\n\n"
      "With --probe, exit status 1 if a replica could not be reached or measured: docs/probe.md.");
  if (const auto status = weir::config::parse_command_line(app, argc, argv)) return *status;
  if (serve_command->parsed()) return serve(file);
  probe_options.timeout = std::chrono::duration<double>(timeout);
  return check(file, probing ? std::optional(probe_options) : std::nullopt);
}

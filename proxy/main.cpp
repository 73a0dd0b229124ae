// The program `weir`: serve and check.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "config/load.hpp"
#include "proxy/server.hpp"

namespace {

constexpr int wrong_usage = 2;

spdlog::level::level_enum level_of(weir::config::LogLevel level) {
  switch (level) {
    case weir::config::LogLevel::trace:
      return spdlog::level::trace;
    case weir::config::LogLevel::debug:
      return spdlog::level::debug;
    case weir::config::LogLevel::info:
      return spdlog::level::info;
    case weir::config::LogLevel::warning:
      return spdlog::level::warn;
    case weir::config::LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

/// The settings, or nothing after every error has been printed.
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
  spdlog::set_default_logger(spdlog::stderr_color_mt("weir"));
  spdlog::set_level(level_of(settings->log.level));
  return weir::proxy::serve(*settings, WEIR_VERSION);
}

int check(const std::string& file) {
  const auto settings = load(file);
  if (!settings) return wrong_usage;
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
      "and measures every answer on its way.");
  app.set_version_flag("--version", std::string("weir ") + WEIR_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0 fine, 1 failed, 2 wrong usage or settings.\n"
      "Signals: TERM and INT drain, then stop; a second one stops at once.");
  std::string file;
  auto* serve_command = app.add_subcommand("serve", "Serve until a signal ends it");
  serve_command->add_option("-c,--config", file, "Settings file (TOML); docs/settings.md is the reference")->required();
  auto* check_command =
      app.add_subcommand("check", "Say whether a settings file is right, and every error if it is not");
  check_command->add_option("-c,--config", file, "Settings file (TOML)")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : wrong_usage;
  }
  return serve_command->parsed() ? serve(file) : check(file);
}

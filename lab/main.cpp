// The program weir-lab: the tools that one runs around the proxy.
#include <CLI/CLI.hpp>

#include "config/command_line.hpp"
#include "lab/commands/commands.hpp"

int main(int argc, char** argv) {
  CLI::App app{"What one runs around weir: simulated replicas, load, and a summary of what was measured.", "weir-lab"};
  app.set_version_flag("--version", WEIR_VERSION);
  app.require_subcommand(1);
  int status = 0;
  weir::lab::commands::add_sim_command(app, status);
  weir::lab::commands::add_load_command(app, status);
  weir::lab::commands::add_experiment_command(app, status);
  weir::lab::commands::add_summary_command(app, status);
  weir::lab::commands::add_reports_command(app, status);
  weir::lab::commands::add_outage_command(app, status);
  weir::lab::commands::add_get_command(app, status);
  // It comes after the commands, because they would inherit it.
  app.footer(
      "Examples:\n"
      "  weir-lab sim --listen 127.0.0.1:8001 --log truth.jsonl\n"
      "  weir-lab load --url http://127.0.0.1:8080 --concurrency 20 --duration 60\n"
      "  weir-lab summary --log requests.jsonl\n"
      "A command has more: weir-lab COMMAND --help.");
  if (const auto wrong = weir::config::parse_command_line(app, argc, argv)) return *wrong;
  return status;
}

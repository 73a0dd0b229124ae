// The program weir-lab: the tools that one runs around the proxy.
#include "config/command_line.hpp"
#include "lab/commands/commands.hpp"

int main(int argc, char** argv) {
  CLI::App app{"Tools around weir: simulated replicas, loads, experiments and plans", "weir-lab"};
  app.set_version_flag("--version", WEIR_VERSION);
  app.require_subcommand(1);
  int status = 0;
  using namespace weir::lab::commands;
  for (auto* const add :
       {&add_sim_command, &add_load_command, &add_experiment_command, &add_plan_command, &add_export_command}) {
    add(app, status);
  }
  // The footer comes after the commands, because they would inherit it.
  app.footer(
      "Examples:\n"
      "  weir-lab sim --listen 127.0.0.1:8001 --log truth.jsonl\n"
      "  weir-lab load --url http://127.0.0.1:8080 --concurrency 20 --duration 60\n"
      "  weir-lab plan requests.jsonl\n"
      "Options and examples of a command: weir-lab COMMAND --help");
  if (const auto wrong = weir::config::parse_command_line(app, argc, argv)) return *wrong;
  return weir::config::after_output(status);
}

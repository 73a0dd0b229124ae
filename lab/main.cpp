// The program weir-lab: what one runs around the proxy.
#include <CLI/CLI.hpp>

#include "lab/commands.hpp"

int main(int argc, char** argv) {
  CLI::App app{"What one runs around weir: simulated replicas, load, and a summary of what was measured."};
  app.set_version_flag("--version", WEIR_VERSION);
  app.require_subcommand(1);
  int status = 0;
  weir::lab::add_sim_command(app, status);
  weir::lab::add_load_command(app, status);
  weir::lab::add_summary_command(app, status);
  weir::lab::add_reports_command(app, status);
  weir::lab::add_outage_command(app, status);
  weir::lab::add_get_command(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return status;
}

// The subcommands of weir-lab: their options, checks and help. Each sets `status` to its exit status when it has run.
#pragma once

namespace CLI {
class App;
}

namespace weir::lab::commands {

void add_sim_command(CLI::App& app, int& status);
void add_load_command(CLI::App& app, int& status);
void add_experiment_command(CLI::App& app, int& status);
void add_summary_command(CLI::App& app, int& status);
void add_reports_command(CLI::App& app, int& status);
void add_outage_command(CLI::App& app, int& status);
void add_get_command(CLI::App& app, int& status);

}  // namespace weir::lab::commands

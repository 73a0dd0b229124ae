// The subcommands of weir-lab: their options, checks and help. Each sets `status` to its exit status when it has run.
#pragma once

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>

namespace weir::lab::commands {

void add_sim_command(CLI::App& app, int& status);
void add_load_command(CLI::App& app, int& status);
void add_experiment_command(CLI::App& app, int& status);
void add_plan_command(CLI::App& app, int& status);
void add_export_command(CLI::App& app, int& status);

/// Returns the options of `command`, which are filled when the command line is read. Then `run` gets them, and `status`
/// becomes what it returns: the exit status. After std::invalid_argument it is 2, because what was asked for is wrong;
/// after any other exception 1.
template <class Options>
std::shared_ptr<Options> run_with_options(CLI::App& command, int& status, int (*run)(Options&)) {
  auto options = std::make_shared<Options>();
  command.callback([options, run, &status, &command] {
    try {
      status = run(*options);
    } catch (const std::exception& e) {
      std::cerr << "weir-lab " << command.get_name() << ": " << e.what() << "\n";
      status = dynamic_cast<const std::invalid_argument*>(&e) ? 2 : 1;
    }
  });
  return options;
}

/// Adds --ca.
inline void add_ca_option(CLI::App& command, std::string& ca) {
  command
      .add_option("--ca", ca,
                  "With https: file of the authorities (PEM) whose certificates are taken, in place of OpenSSL's "
                  "default store")
      ->type_name("FILE");
}

}  // namespace weir::lab::commands

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "lab/commands/commands.hpp"
#include "lab/commands/files.hpp"
#include "lab/exit_status.hpp"
#include "lab/report/observers.hpp"

namespace weir::lab::commands {
namespace {

int run_reports(const std::vector<std::string>& named) {
  return exit_status("weir-lab reports", [&] {
    std::vector<report::Observed> runs;
    for (const std::string& argument : named) {
      const std::size_t equals = argument.find('=');
      if (equals == 0 || equals == std::string::npos) {
        throw std::invalid_argument("expected NAME=FILE, got \"" + argument + '"');
      }
      const std::string path = argument.substr(equals + 1);
      runs.push_back(report::observed(argument.substr(0, equals), report_in(std::ifstream(path), path)));
    }
    report::print_reports(std::cout, runs);
    return 0;
  });
}

}  // namespace

void add_reports_command(CLI::App& app, int& status) {
  const auto named = std::make_shared<std::vector<std::string>>();
  CLI::App* reports = app.add_subcommand("reports", "Time to first token of several loads side by side");
  reports->footer("Example: weir-lab reports before=before.json after=after.json");
  reports->add_option("reports", *named, "NAME=FILE, the file a report of `weir-lab load --json`")->required();
  reports->callback([named, &status] { status = run_reports(*named); });
}

}  // namespace weir::lab::commands

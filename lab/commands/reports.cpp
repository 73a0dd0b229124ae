#include <string>
#include <vector>

#include "lab/commands/commands.hpp"
#include "lab/commands/files.hpp"
#include "lab/report/observers.hpp"

namespace weir::lab::commands {
namespace {

int run_reports(std::vector<std::string>& named) {
  std::vector<report::Observed> runs;
  for (const std::string& argument : named) {
    const std::size_t equals = argument.find('=');
    if (equals == 0 || equals == std::string::npos) {
      throw std::invalid_argument("expected NAME=FILE, got \"" + argument + '"');
    }
    const std::string path = argument.substr(equals + 1);
    runs.push_back(report::observed(argument.substr(0, equals), report_in(path)));
  }
  report::print_reports(std::cout, runs);
  return 0;
}

}  // namespace

void add_reports_command(CLI::App& app, int& status) {
  CLI::App* reports = app.add_subcommand("reports", "Print TTFT of several loads side by side");
  const auto named = run_with_options(*reports, status, &run_reports);
  reports->footer("Example: weir-lab reports before=before.json after=after.json");
  reports->add_option("reports", *named, "NAME=FILE; the file is a report of `weir-lab load --json`")->required();
}

}  // namespace weir::lab::commands

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "lab/commands/commands.hpp"
#include "lab/json_fields.hpp"
#include "lab/report/report_table.hpp"

namespace weir::lab::commands {
namespace {

int run_reports(const std::vector<std::string>& named) {
  std::vector<report::Observed> runs;
  for (const std::string& argument : named) {
    const std::size_t equals = argument.find('=');
    if (equals == 0 || equals == std::string::npos) {
      std::cerr << "weir-lab reports: expected NAME=FILE, got \"" << argument << "\"\n";
      return 2;
    }
    const std::string path = argument.substr(equals + 1);
    std::ifstream file(path);
    const auto report = object_of(std::string(std::istreambuf_iterator<char>(file), {}));
    if (!report) {
      std::cerr << "weir-lab reports: " << path << " is no report of `weir-lab load --json`\n";
      return 1;
    }
    runs.push_back(report::observed(argument.substr(0, equals), *report));
  }
  report::print_reports(std::cout, runs);
  return 0;
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

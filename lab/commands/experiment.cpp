#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "config/private_file.hpp"
#include "lab/commands/commands.hpp"
#include "lab/commands/run_table.hpp"
#include "lab/experiment/rows.hpp"
#include "lab/text.hpp"

namespace weir::lab::commands {
namespace {

using namespace experiment;

struct Options {
  std::string file;
  Files files;
  bool afresh = false;
};

/// Opens the results file for more lines. A line that was cut short is ended first.
std::ofstream kept_in(const std::string& path, bool afresh) {
  bool cut = false;
  if (std::ifstream before(path, std::ios::binary | std::ios::ate); before && !afresh && before.tellg() > 0) {
    before.seekg(-1, std::ios::end);
    cut = before.get() != '\n';
  }
  config::begin_private(path);
  std::ofstream results(path, afresh ? std::ios::trunc : std::ios::app);
  if (!results) throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno));
  if (cut) results << '\n';
  return results;
}

Done done_before(const Plan& plan, bool afresh) {
  std::ifstream lines(afresh ? std::string("/dev/null") : plan.results);
  const ResultsRead read = read_results(plan, lines);
  const std::uint64_t all = plan.repeat * plan.rows.size(), done = all - left(plan, read.done);
  if (done > 0) {
    std::cerr << "weir-lab experiment: " << done << " of " << all << " repetitions are in " << plan.results
              << " already and are not run again; --afresh runs all\n";
  }
  const auto left_out = [&](std::uint64_t lines, const std::string& why) {
    if (lines == 0) return;
    std::cerr << "weir-lab experiment: " << counted(lines, "line") << " of " << plan.results << why << '\n';
  };
  const auto are = [](std::uint64_t lines) { return std::string(lines == 1 ? " is" : " are"); };
  left_out(read.others, are(read.others) + " of other rows or prompts and left out");
  left_out(read.beyond, are(read.beyond) + " of repetitions beyond repeat = " + std::to_string(plan.repeat) +
                            " and left out; a higher repeat uses them again");
  left_out(read.broken, " cannot be read and left out");
  return read.done;
}

int run_experiment(Options& options) {
  const PlanResult loaded = load_plan(options.file);
  if (const auto* errors = std::get_if<std::vector<config::SettingsError>>(&loaded)) {
    for (const auto& error : *errors) std::cerr << error.text() << '\n';
    return 2;
  }
  const auto& plan = std::get<Plan>(loaded);
  auto inputs = plan.inputs;
  inputs.emplace_back("the results file", plan.results);
  std::ofstream results;
  TableRun asked{"weir-lab experiment",
                 options.files,
                 std::move(inputs),
                 "",
                 {},
                 plan.ignore_eos,
                 {}};
  for (const Row& row : plan.rows) asked.rows.push_back(row.name());
  asked.tell = [](const std::string& what) { std::cerr << what << '\n'; };
  return run_table(asked, [&] {
    Done done = done_before(plan, options.afresh);
    results = kept_in(plan.results, options.afresh);
    return std::make_unique<Rows>(plan, std::move(done), results, std::cerr, !options.files.log.empty());
  });
}

}  // namespace

void add_experiment_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("experiment", "Run a table of loads over one set of prompts");
  const auto options = run_with_options(*command, status, &run_experiment);
  command->footer(
      "FILE has a [prompts] table (count, shape or lengths, seed) and a [[run]] for each row: label, url or replica,\n"
      "concurrency (a number or a list), and descriptions: gpu, engine, speculation, cost_per_hour. Each row is run\n"
      "`repeat` times. A results file beside FILE keeps finished rows, and the same command continues from there.\n"
      "docs/guides/load-test.md has all keys.\n"
      "Example: weir-lab experiment cards.toml --markdown cards.md --html cards.html");
  command->add_option("FILE", options->file, "The experiment, in TOML")->required();
  command->add_option("--markdown", options->files.markdown, "File for the table as Markdown; - = standard output");
  command->add_option("--csv", options->files.csv, "File for the table as CSV; - = standard output");
  command->add_option("--html", options->files.html, "File for a page with charts; - = standard output");
  command->add_option("--json", options->files.json, "File for the table as JSON; - = standard output");
  command->add_option("--log", options->files.log,
                      "File for a request log for `weir compare`, whose config is the row, such as \"H800, 8 at "
                      "once\"; - = standard output");
  command->add_flag("--afresh", options->afresh, "Run all rows again, whatever the results file has");
}

}  // namespace weir::lab::commands

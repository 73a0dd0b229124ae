#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "lab/commands/commands.hpp"
#include "lab/commands/terminal.hpp"
#include "lab/exit_status.hpp"
#include "lab/experiment/experiment.hpp"
#include "lab/experiment/report.hpp"
#include "lab/load/ended_early.hpp"
#include "lab/load/request_lines.hpp"
#include "lab/sink.hpp"
#include "lab/text.hpp"

namespace weir::lab::commands {
namespace {

using namespace experiment;

struct Options {
  std::string file, markdown, csv, html, json, log;
  bool afresh = false;
};

/// Opens the results file for more lines. A line that was cut short is ended first.
std::ofstream opened(const std::string& path, bool afresh) {
  bool cut = false;
  if (std::ifstream before(path, std::ios::binary | std::ios::ate); before && !afresh && before.tellg() > 0) {
    before.seekg(-1, std::ios::end);
    cut = before.get() != '\n';
  }
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
  if (read.others > 0) {
    std::cerr << "weir-lab experiment: " << counted(read.others, "line") << " of " << plan.results
              << (read.others == 1 ? " is" : " are") << " of other rows or prompts and left out\n";
  }
  if (read.beyond > 0) {
    std::cerr << "weir-lab experiment: " << counted(read.beyond, "line") << " of " << plan.results
              << (read.beyond == 1 ? " is" : " are") << " of repetitions beyond repeat = " << plan.repeat
              << " and left out; a higher repeat uses them again\n";
  }
  if (read.broken > 0) {
    std::cerr << "weir-lab experiment: " << counted(read.broken, "line") << " of " << plan.results
              << " cannot be read and left out\n";
  }
  return read.done;
}

std::string name_of(const Row& row) { return row.label + ", " + std::to_string(row.concurrency) + " at once"; }

/// Writes lines of progress, and each repetition into the results file as soon as it is done.
OnRun told(const Plan& plan, std::ofstream& results, std::uint64_t to_run, bool& failed) {
  const auto run = std::make_shared<std::uint64_t>(0);
  const auto named = [&plan](const Row& row, std::uint64_t number) {
    return name_of(row) + ", repetition " + std::to_string(number + 1) + " of " + std::to_string(plan.repeat);
  };
  OnRun on;
  on.begin = [=](const Row& row, std::uint64_t number) {
    std::cerr << '[' << ++*run << '/' << to_run << "] " << named(row, number) << '\n';
  };
  on.done = [&plan, &results](const Row& row, std::uint64_t number, const Repetition& repetition) {
    results << line_of(plan, row, number, repetition) << std::endl;
    std::cerr << "        " << format("%.1f s", repetition.seconds)
              << (repetition.failed > 0 ? ", " + counted(repetition.failed, "request") + " failed" : "") << '\n';
  };
  on.failed = [&failed](const Row& row, std::uint64_t, const std::string& reason) {
    failed = true;
    std::cerr << "        " << row.url << " answered no request (" << reason << "); it is tried again next time\n";
  };
  return on;
}

int run_experiment(const Options& options) {
  const PlanResult loaded = load_plan(options.file);
  if (const auto* errors = std::get_if<std::vector<config::SettingsError>>(&loaded)) {
    for (const auto& error : *errors) std::cerr << error.text() << '\n';
    return 2;
  }
  const auto& plan = std::get<Plan>(loaded);
  return exit_status("weir-lab experiment", [&] {
    Sink markdown(options.markdown), csv(options.csv), html(options.html), json(options.json), log(options.log);
    Done done = done_before(plan, options.afresh);
    bool failed = false, whole = true;
    {
      std::ofstream results = opened(plan.results, options.afresh);
      const load::Interrupt interrupt;
      OnRun on = told(plan, results, left(plan, done), failed);
      std::vector<load::RequestLines> lines;
      for (const Row& row : plan.rows) lines.emplace_back(name_of(row));
      std::vector<load::EndedEarly> early(plan.rows.size());
      if (log || plan.ignore_eos) {
        on.result = [&](const Row& row, const load::Result& result) {
          const auto place = static_cast<std::size_t>(&row - plan.rows.data());
          if (log) log.stream() << lines[place].line(result) << '\n';
          if (plan.ignore_eos) early[place].add(result);
        };
      }
      whole = run_rest(plan, done, interrupt, on);
      for (const Row& row : plan.rows) {
        const auto warning = early[static_cast<std::size_t>(&row - plan.rows.data())].warning();
        if (warning) std::cerr << "weir-lab experiment: warning: " << name_of(row) << ": " << *warning << '\n';
      }
      if (!results) throw std::runtime_error("cannot write " + plan.results + "; is the disk full?");
    }
    if (!whole) std::cerr << "weir-lab experiment: ended by its user; the same command goes on from here\n";
    if (markdown) markdown.stream() << document_of(plan, done).markdown();
    if (csv) csv.stream() << as_csv(plan, done);
    if (html) html.stream() << chart::as_html(plan.title, document_of(plan, done), figures_of(plan, done));
    if (json) json.stream() << boost::json::serialize(as_json(plan, done)) << '\n';
    const bool shown =
        markdown.to_stdout() || csv.to_stdout() || html.to_stdout() || json.to_stdout() || log.to_stdout();
    if (!shown) std::cout << as_text(plan, done, coloured());
    const bool flushed =
        markdown.flush() && csv.flush() && html.flush() && json.flush() && log.flush() && std::cout.flush();
    return said_unless(flushed, "weir-lab experiment") && !failed && whole ? 0 : 1;
  });
}

}  // namespace

void add_experiment_command(CLI::App& app, int& status) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("experiment", "Runs a table of loads over one set of prompts");
  command->footer(
      "FILE has a [prompts] table (count, shape or lengths, seed) and a [[run]] for each row: label, url or replica,\n"
      "concurrency (a number or a list), and what is told of it: gpu, engine, speculation, cost_per_hour. Each row is\n"
      "run `repeat` times. What is done is kept in a results file beside it, and the same command goes on from there.\n"
      "docs/experiments.md has all keys.\n"
      "Example: weir-lab experiment cards.toml --markdown cards.md --html cards.html");
  command->add_option("FILE", options->file, "The experiment, in TOML")->required();
  command->add_option("--markdown", options->markdown, "File for the table as Markdown; - = standard output");
  command->add_option("--csv", options->csv, "File for the table as CSV; - = standard output");
  command->add_option("--html", options->html, "File for a page with charts; - = standard output");
  command->add_option("--json", options->json, "File for the table as JSON; - = standard output");
  command->add_option("--log", options->log,
                      "File for a line of the request log a request, its config the row, such as \"H800, 8 at once\"; "
                      "`weir compare` reads it. - = standard output");
  command->add_flag("--afresh", options->afresh, "Forget what the results file has, and run all");
  command->callback([options, &status] { status = run_experiment(*options); });
}

}  // namespace weir::lab::commands

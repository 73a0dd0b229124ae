#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "lab/commands/commands.hpp"
#include "lab/json_fields.hpp"
#include "lab/report/observers.hpp"
#include "lab/report/summary.hpp"

namespace weir::lab::commands {
namespace {

struct SummaryOptions {
  std::string log, metrics;
  std::vector<std::string> client, direct, truth;
  bool observers_only = false;
};

bool can_read(const std::ifstream& file, const char* what, const std::string& path) {
  if (!file) std::cerr << "weir-lab summary: cannot read " << what << " " << path << "\n";
  return file.good();
}

/// Reads what a client measured, from one report or from logs. If a file is neither, returns nothing and writes a
/// sentence on standard error.
std::optional<report::Observed> read_client(const std::string& who, const std::vector<std::string>& paths) {
  report::StreamTimes times;
  for (const std::string& path : paths) {
    std::ifstream file(path);
    if (!can_read(file, "the client's", path)) return std::nullopt;
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const auto report = object_of(text);
    if (report && report->contains("requests_ok")) {
      if (paths.size() == 1) return report::observed(who, *report);
      std::cerr << "weir-lab summary: reports cannot be joined; give one, or the logs of `weir-lab load --log`\n";
      return std::nullopt;
    }
    std::istringstream lines(text);
    times.read_load(lines);
  }
  report::Observed client = times.observed(who);
  if (client.requests > 0) return client;
  std::cerr << "weir-lab summary: " << paths.front()
            << " holds no report of `weir-lab load --json` and no ok request of"
            << " `weir-lab load --log`\n";
  return std::nullopt;
}

/// Shows who else measured. If a file cannot be read, returns false and writes a sentence on standard error.
bool print_others(const SummaryOptions& options, const report::LogGroup& all) {
  std::vector<report::Observed> rows;
  if (!options.truth.empty()) {
    report::StreamTimes truth;
    for (const std::string& path : options.truth) {
      std::ifstream file(path);
      if (!can_read(file, "the truth log", path)) return false;
      truth.read_truth(file);
    }
    rows.push_back(truth.observed("the engine itself"));
  }
  rows.push_back({"weir, of the replicas", all.ok(), all.ttft(), all.itl(), all.tpot()});
  rows.push_back({"weir, for the client", all.ok(), all.ttft_client(), all.itl(), all.tpot()});
  std::optional<report::Observed> through, direct;
  if (!options.client.empty()) {
    through = read_client("the client itself", options.client);
    if (!through) return false;
    rows.push_back(*through);
  }
  if (!options.direct.empty()) {
    direct = read_client("a client without weir", options.direct);
    if (!direct) return false;
    rows.push_back(*direct);
  }
  if (rows.size() > 2) report::print_observers(std::cout, rows);
  if (through && direct) {
    std::cout << '\n';
    report::print_added(std::cout, *through, *direct);
  }
  if (!options.metrics.empty()) {
    std::ifstream file(options.metrics);
    if (!can_read(file, "the metrics page", options.metrics)) return false;
    if (const auto held = report::overhead(report::read_metrics_text(file))) report::print_overhead(std::cout, *held);
  }
  return true;
}

int run_summary(const SummaryOptions& options) {
  std::ifstream log(options.log);
  if (!can_read(log, "the request log", options.log)) return 1;
  const report::LogSummary summary = report::read_log(log);
  if (summary.all.ok() + summary.all.failed() + summary.all.aborted() == 0) {
    std::cerr << "weir-lab summary: " << options.log << " holds no requests of primary replicas\n";
    return 1;
  }
  if (!options.observers_only) {
    report::print_summary(std::cout, summary);
    std::cout << '\n';
  }
  return print_others(options, summary.all) ? 0 : 1;
}

}  // namespace

void add_summary_command(CLI::App& app, int& status) {
  const auto options = std::make_shared<SummaryOptions>();
  CLI::App* summary = app.add_subcommand("summary", "weir's request log as a table per replica and per configuration");
  summary->footer("Example: weir-lab summary --log requests.jsonl --client report.json --truth truth.jsonl");
  summary->add_option("--log", options->log, "weir's request log")->required();
  summary->add_option("--client", options->client,
                      "The client's view: a report of `weir-lab load --json`, or logs of `weir-lab load --log`");
  summary->add_option("--truth", options->truth,
                      "Logs of the simulated replicas (`weir-lab sim --log`): the engine's view");
  summary->add_option("--direct", options->direct, "The same of a load sent past weir: what weir adds");
  summary->add_option("--metrics", options->metrics, "weir's /metrics page, saved after the run: its own account");
  summary->add_flag("--observers", options->observers_only, "Only who measured what; no table of replicas");
  summary->callback([options, &status] { status = run_summary(*options); });
}

}  // namespace weir::lab::commands

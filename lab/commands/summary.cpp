#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "lab/commands/commands.hpp"
#include "lab/commands/files.hpp"
#include "lab/report/observers.hpp"
#include "lab/report/summary.hpp"

namespace weir::lab::commands {
namespace {

struct SummaryOptions {
  std::string log, metrics;
  std::vector<std::string> client, direct, truth;
  bool observers_only = false;
};

/// Returns what a client measured, from one report or from logs.
report::Observed read_client(const std::string& who, const std::vector<std::string>& paths) {
  report::StreamTimes times;
  for (const std::string& path : paths) {
    auto file = opened("the client's ", path);
    const std::string text = text_in(file);
    if (const auto report = object_of(text); report && value_at(*report, "requests_ok")) {
      if (paths.size() == 1) return report::observed(who, *report);
      throw std::runtime_error("reports cannot be joined; give one, or the logs of `weir-lab load --log`");
    }
    std::istringstream lines(text);
    times.read_load(lines);
  }
  report::Observed client = times.observed(who);
  if (client.requests > 0) return client;
  throw std::runtime_error(paths.front() + " holds no report of `weir-lab load --json` and no ok request of " +
                           "`weir-lab load --log`");
}

/// Shows who else measured.
void print_others(const SummaryOptions& options, const report::LogGroup& all) {
  std::vector<report::Observed> rows;
  if (!options.truth.empty()) {
    report::StreamTimes truth;
    for (const std::string& path : options.truth) {
      auto file = opened("the truth log ", path);
      truth.read_truth(file);
    }
    rows.push_back(truth.observed("the engine itself"));
  }
  const auto itl = all.itl(), tpot = load::distribution(all.tpot);
  rows.push_back({"weir, of the replicas", all.ok, load::distribution(all.ttft), itl, tpot});
  rows.push_back({"weir, for the client", all.ok, load::distribution(all.ttft_client), itl, tpot});
  std::optional<report::Observed> through, direct;
  if (!options.client.empty()) rows.push_back(*(through = read_client("the client itself", options.client)));
  if (!options.direct.empty()) rows.push_back(*(direct = read_client("a client without weir", options.direct)));
  if (rows.size() > 2) report::print_observers(std::cout, rows);
  if (through && direct) {
    std::cout << '\n';
    report::print_added(std::cout, *through, *direct);
  }
  if (options.metrics.empty()) return;
  auto file = opened("the metrics page ", options.metrics);
  if (const auto held = report::overhead(report::read_metrics_text(file))) report::print_overhead(std::cout, *held);
}

int run_summary(SummaryOptions& options) {
  auto log = opened("the request log ", options.log);
  const report::LogSummary summary = report::read_log(log);
  if (summary.all.ok + summary.all.failed + summary.all.aborted == 0) {
    throw std::runtime_error(options.log + " holds no requests of primary replicas");
  }
  if (!options.observers_only) {
    report::print_summary(std::cout, summary);
    std::cout << '\n';
  }
  print_others(options, summary.all);
  return 0;
}

}  // namespace

void add_summary_command(CLI::App& app, int& status) {
  CLI::App* summary =
      app.add_subcommand("summary", "Print a table of replicas and configurations from weir's request log");
  const auto options = run_with_options(*summary, status, &run_summary);
  summary->footer("Example: weir-lab summary --log requests.jsonl --client report.json --truth truth.jsonl");
  summary->add_option("--log", options->log, "weir's request log")->required();
  summary->add_option("--client", options->client,
                      "Client's figures: a report of `weir-lab load --json`, or logs of `weir-lab load --log`");
  summary->add_option("--truth", options->truth, "Engine's figures: logs of `weir-lab sim --log`");
  summary->add_option("--direct", options->direct,
                      "Client's figures of a load sent directly to the replicas: shows what weir adds");
  summary->add_option("--metrics", options->metrics,
                      "weir's /metrics page, saved after the run: shows what weir counted");
  summary->add_flag("--observers", options->observers_only,
                    "Print only the comparison of observers, and no table of replicas");
}

}  // namespace weir::lab::commands

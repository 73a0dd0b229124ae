#include <string>

#include "lab/commands/commands.hpp"
#include "lab/commands/files.hpp"
#include "lab/report/outage.hpp"

namespace weir::lab::commands {
namespace {

struct OutageOptions {
  report::Outage outage;
  std::string log, client, metrics;
};

int run_outage(OutageOptions& options) {
  auto log = opened("", options.log), metrics = opened("", options.metrics);
  const auto report = report_in(options.client);
  report::read_outage(options.outage, log, report, report::read_metrics_text(metrics));
  report::print_outage(std::cout, options.outage);
  return 0;
}

}  // namespace

void add_outage_command(CLI::App& app, int& status) {
  CLI::App* outage = app.add_subcommand("outage", "Print what the loss of a replica cost, and when it was back");
  const auto options = run_with_options(*outage, status, &run_outage);
  outage->footer(
      "Example: weir-lab outage --replica gpu0 --killed 1795392000 --restarted 1795392030 --log requests.jsonl "
      "--client report.json --metrics metrics.txt");
  outage->add_option("--replica", options->outage.replica, "Replica that was lost")->required();
  outage->add_option("--killed", options->outage.killed, "Unix time at which it was killed")->required();
  outage->add_option("--restarted", options->outage.restarted, "Unix time at which it was started again")->required();
  outage->add_option("--log", options->log, "weir's request log")->required();
  outage->add_option("--client", options->client, "Report of `weir-lab load --json`")->required();
  outage->add_option("--metrics", options->metrics, "weir's /metrics page, saved after the run")->required();
}

}  // namespace weir::lab::commands

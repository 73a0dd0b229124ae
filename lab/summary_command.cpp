#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include "lab/commands.hpp"
#include "lab/summary.hpp"

namespace weir::lab {
namespace {

struct Options {
  std::string log, client;
};

int run_summary(const Options& options) {
  std::ifstream log(options.log);
  if (!log) {
    std::cerr << "weir-lab summary: cannot read the request log " << options.log << "\n";
    return 1;
  }
  boost::json::value client;
  if (!options.client.empty()) {
    std::ifstream file(options.client);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    boost::system::error_code ec;
    client = boost::json::parse(text, ec);
    if (ec || !client.is_object()) {
      std::cerr << "weir-lab summary: " << options.client << " is no report of `weir-lab load --json`\n";
      return 1;
    }
  }
  const LogSummary summary = read_log(log);
  if (summary.all.ok() + summary.all.failed() + summary.all.aborted() == 0) {
    std::cerr << "weir-lab summary: " << options.log << " holds no requests of primary replicas\n";
    return 1;
  }
  print_summary(std::cout, summary, client);
  return 0;
}

}  // namespace

void add_summary_command(CLI::App& app, int& status) {
  const auto options = std::make_shared<Options>();
  CLI::App* summary = app.add_subcommand("summary", "weir's request log as a table per replica and per configuration");
  summary->add_option("--log", options->log, "weir's request log")->required();
  summary->add_option("--client", options->client, "Report of `weir-lab load --json`, to be shown beside it");
  summary->callback([options, &status] { status = run_summary(*options); });
}

}  // namespace weir::lab

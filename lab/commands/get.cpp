#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "lab/commands/commands.hpp"
#include "lab/load/http_get.hpp"

namespace weir::lab::commands {
namespace {

struct GetOptions {
  std::string url;
  bool models = false;
};

int run_get(const GetOptions& options) {
  try {
    const std::string body = load::http_get(options.url);
    if (!options.models) {
      std::cout << body;
      return 0;
    }
    const auto ids = load::model_ids(body);
    for (const std::string& id : ids) std::cout << id << '\n';
    if (!ids.empty()) return 0;
    std::cerr << "weir-lab get: " << options.url << " lists no models\n";
  } catch (const std::exception& e) {
    std::cerr << "weir-lab get: " << e.what() << "\n";
  }
  return 1;
}

}  // namespace

void add_get_command(CLI::App& app, int& status) {
  const auto options = std::make_shared<GetOptions>();
  CLI::App* get = app.add_subcommand("get", "Prints the body of one GET, or the models it lists");
  get->footer(
      "Examples: weir-lab get http://127.0.0.1:9090/metrics\n"
      "          weir-lab get --models http://127.0.0.1:8001/v1/models");
  get->add_option("url", options->url, "http://host[:port]/path")->required();
  get->add_flag("--models", options->models, "The answer is that of /v1/models: print the ids, one a line");
  get->callback([options, &status] { status = run_get(*options); });
}

}  // namespace weir::lab::commands

#include <chrono>
#include <string>

#include "lab/commands/commands.hpp"
#include "lab/load/http_get.hpp"

namespace weir::lab::commands {
namespace {

struct GetOptions {
  std::string url, ca;
  bool models = false;
};

int run_get(GetOptions& options) try {
  const std::string body = load::http_get(options.url, std::chrono::seconds(5), options.ca);
  if (!options.models) {
    std::cout << body;
    return 0;
  }
  const auto ids = load::model_ids(body);
  if (ids.empty()) throw std::runtime_error(options.url + " lists no models");
  for (const std::string& id : ids) std::cout << id << '\n';
  return 0;
} catch (const std::invalid_argument& wrong) {
  throw std::runtime_error(wrong.what());  // A URL that cannot be used ends this command as any other failure does.
}

}  // namespace

void add_get_command(CLI::App& app, int& status) {
  CLI::App* get = app.add_subcommand("get", "Print the body of one GET, or the models that it lists");
  const auto options = run_with_options(*get, status, &run_get);
  get->footer(
      "Examples: weir-lab get http://127.0.0.1:9090/metrics\n"
      "          weir-lab get --models http://127.0.0.1:8001/v1/models");
  get->add_option("url", options->url, "http://host[:port]/path, or https")->required();
  add_ca_option(*get, options->ca);
  get->add_flag("--models", options->models, "Print the ids of a /v1/models answer, one a line");
}

}  // namespace weir::lab::commands

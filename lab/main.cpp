// The program weir-lab: what one runs around the proxy.
#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "lab/listen.hpp"
#include "lab/sim_replica.hpp"

namespace {

using namespace weir::lab;

void add_sim(CLI::App& app, SimSettings& s, std::string& listen) {
  EngineSettings& m = s.model_settings;
  app.add_option("--listen", listen, "Address and port; port 0 lets the system choose")->capture_default_str()->check(is_address);
  app.add_option("--model", s.model, "Name of the model it serves")->capture_default_str();
  app.add_option("--seed", s.seed, "Answers, lengths and jitter follow from it")->capture_default_str();
  app.add_option("--log", s.log, "JSON line a request with its true moments; - = standard output");
  app.add_option("--engine", s.engine, "Whose metric names /metrics uses: vllm or tgi")
      ->transform(CLI::CheckedTransformer(std::map<std::string, EngineNames>{{"vllm", EngineNames::vllm}, {"tgi", EngineNames::tgi}}));

  const std::string group = "Engine model (defaults: a 7B model on a mid-range GPU, simulated)";
  app.add_option("--speed", m.speed, "Divides every step time")->capture_default_str()->check(CLI::PositiveNumber)->group(group);
  app.add_option("--batching", m.batching, "Scheduler: continuous or static")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Batching>{{"continuous", Batching::continuous}, {"static", Batching::static_batches}}))
      ->group(group);
}

}  // namespace

int main() {}

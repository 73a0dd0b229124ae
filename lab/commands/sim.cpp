#include <boost/asio/ip/address.hpp>
#include <map>
#include <string>

#include "config/option_checks.hpp"
#include "lab/commands/commands.hpp"
#include "lab/engine/engine_options.hpp"
#include "lab/engine/engine_preset.hpp"
#include "lab/sim/sim_replica.hpp"
#include "lab/text.hpp"

namespace weir::lab::commands {
namespace {

struct SimOptions {
  sim::SimSettings settings;
  std::string listen = "127.0.0.1:8001";
};

/// Reads "ADDRESS:PORT" or "[ADDRESS]:PORT". Returns what is wrong, or "" if nothing is.
std::string read_listen(const std::string& text, sim::SimSettings& settings) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return "expected ADDRESS:PORT, got \"" + text + "\"";
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  boost::system::error_code ec;
  boost::asio::ip::make_address(host, ec);
  if (ec) return "expected a numeric address before the port, got \"" + host + "\"";
  const auto port = number_in<std::uint16_t>(std::string_view(text).substr(colon + 1));
  if (!port) return "the port must be 0 to 65535, got \"" + text.substr(colon + 1) + "\"";
  settings.host = host;
  settings.port = *port;
  return "";
}

int run_sim(SimOptions& options) {
  read_listen(options.listen, options.settings);
  sim::run_sim(options.settings);
  return 0;
}

}  // namespace

void add_sim_command(CLI::App& app, int& status) {
  CLI::App* sim =
      app.add_subcommand("sim", "A simulated replica: a real HTTP server with a model of an engine behind it");
  const auto options = run_with_options(*sim, status, &run_sim);
  sim::SimSettings& s = options->settings;
  sim->footer(std::string("Serves /v1/chat/completions and /v1/completions as vLLM does (only Content-Type: "
                          "application/json), /generate and\n/generate_stream as TGI does, and "
                          "/v1/models, /health, /metrics, /reset_prefix_cache, /flush_cache. Its times are simulated: "
                          "they resemble an engine and prove nothing about one.\n") +
              "Example: weir-lab sim --listen 127.0.0.1:8001 --preset a800 --speed 0.5 --log truth.jsonl\n\n" +
              engine::describe_engine_presets());
  sim->add_option("--listen", options->listen, "Address and port; port 0 lets the system choose")
      ->capture_default_str()
      ->check([](const std::string& text) {
        sim::SimSettings ignored;
        return read_listen(text, ignored);
      });
  sim->add_option("--model", s.model, "Name of the model it serves")->capture_default_str();
  sim->add_option("--seed", s.seed, "Seed of answers, their lengths and the jitter")->capture_default_str();
  sim->add_option("--engine", s.engine, "Engine whose metric names /metrics has: vllm (default) or tgi")
      ->transform(config::word_of(
          std::map<std::string, sim::EngineNames>{{"vllm", sim::EngineNames::vllm}, {"tgi", sim::EngineNames::tgi}}));
  sim->add_option("--cached-tokens", s.cache_report,
                  "Cached tokens that usage reports with --prefix-cache: exact (default), none (vLLM without "
                  "--enable-prompt-tokens-details), half (wrong), coarse (whole pages of 64), nonzero (no count if it "
                  "is 0, as SGLang)")
      ->transform(
          config::word_of(std::map<std::string, engine::CacheReport>{{"exact", engine::CacheReport::exact},
                                                                     {"none", engine::CacheReport::none},
                                                                     {"half", engine::CacheReport::half},
                                                                     {"coarse", engine::CacheReport::coarse},
                                                                     {"nonzero", engine::CacheReport::nonzero}}));
  sim->add_flag("--thoughts", s.thoughts,
                "Later prompts find no answer in the KV cache, as with chat templates that leave out the thoughts");
  sim->add_option("--log", s.log, "File for one JSON line per request, with its true moments; - = standard output");

  engine::add_engine_options(*sim, s.model_settings);
}

}  // namespace weir::lab::commands

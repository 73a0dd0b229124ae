#include <CLI/CLI.hpp>
#include <boost/asio/ip/address.hpp>
#include <charconv>
#include <map>
#include <memory>
#include <string>

#include "lab/commands.hpp"
#include "lab/sim_replica.hpp"

namespace weir::lab {
namespace {

struct Options {
  SimSettings settings;
  std::string listen = "127.0.0.1:8001";
  double step_ms, prefill_us, sequence_us, kv_ns;
};

/// "ADDRESS:PORT" or "[ADDRESS]:PORT". Returns what is wrong, "" if nothing.
std::string read_listen(const std::string& text, SimSettings& settings) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return "expected ADDRESS:PORT, got \"" + text + "\"";
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  boost::system::error_code ec;
  boost::asio::ip::make_address(host, ec);
  if (ec) return "expected a numeric address before the port, got \"" + host + "\"";
  const char* const end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data() + colon + 1, end, settings.port);
  if (failed != std::errc{} || stop != end)
    return "the port must be 0 to 65535, got \"" + text.substr(colon + 1) + "\"";
  settings.host = host;
  return "";
}

nanoseconds in_nanoseconds(double value, double unit) { return nanoseconds(static_cast<std::int64_t>(value * unit)); }

}  // namespace

void add_sim_command(CLI::App& app, int& status) {
  const auto options = std::make_shared<Options>();
  SimSettings& s = options->settings;
  EngineSettings& m = s.model_settings;
  options->step_ms = static_cast<double>(m.step_base.count()) / 1e6;
  options->prefill_us = static_cast<double>(m.per_prefill_token.count()) / 1e3;
  options->sequence_us = static_cast<double>(m.per_decode_sequence.count()) / 1e3;
  options->kv_ns = static_cast<double>(m.per_kv_token.count());

  CLI::App* sim =
      app.add_subcommand("sim", "A simulated replica: a real HTTP server with a model of an engine behind it");
  sim->footer(
      "Serves /v1/chat/completions and /v1/completions as vLLM does, /generate and /generate_stream as TGI does, and\n"
      "/v1/models, /health, /metrics. Its times are simulated: they resemble an engine and prove nothing about one.\n"
      "Example: weir-lab sim --listen 127.0.0.1:8001 --model sim-7b --speed 1.5 --log truth.jsonl");
  sim->add_option("--listen", options->listen, "Address and port; port 0 lets the system choose")
      ->capture_default_str()
      ->check([](const std::string& text) {
        SimSettings ignored;
        return read_listen(text, ignored);
      });
  sim->add_option("--model", s.model, "Name of the model it serves")->capture_default_str();
  sim->add_option("--seed", s.seed, "Answers, their lengths and the jitter follow from it")->capture_default_str();
  sim->add_option("--engine", s.engine, "Whose metric names /metrics uses: vllm (default) or tgi")
      ->transform(CLI::CheckedTransformer(
                      std::map<std::string, EngineNames>{{"vllm", EngineNames::vllm}, {"tgi", EngineNames::tgi}})
                      .description(""));
  sim->add_option("--log", s.log, "File for a JSON line a request with its true moments; - = standard output");

  const std::string model = "Engine (defaults resemble a 7B model on a mid-range GPU)";
  sim->add_option("--speed", m.speed, "Divides every step time")
      ->capture_default_str()
      ->check(CLI::Range(1e-3, 1e6))
      ->group(model);
  sim->add_option("--batching", m.batching, "continuous (default) or static")
      ->transform(CLI::CheckedTransformer(std::map<std::string, Batching>{{"continuous", Batching::continuous},
                                                                          {"static", Batching::static_batches}})
                      .description(""))
      ->group(model);
  sim->add_option("--max-batch", m.max_batch, "Sequences that run at a time")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000))
      ->group(model);
  sim->add_option("--kv-tokens", m.kv_tokens, "Tokens that the KV cache holds")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->group(model);
  sim->add_option("--prefill-budget", m.prefill_budget, "Tokens of one step, decode included")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000'000))
      ->group(model);
  sim->add_option("--step-ms", options->step_ms, "Milliseconds of every step")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 60'000.0))
      ->group(model);
  sim->add_option("--prefill-us", options->prefill_us, "Microseconds more for each prompt token of a step")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e6))
      ->group(model);
  sim->add_option("--sequence-us", options->sequence_us, "Microseconds more for each decoded sequence of a step")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e6))
      ->group(model);
  sim->add_option("--kv-ns", options->kv_ns, "Nanoseconds more for each token in the KV cache")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e6))
      ->group(model);
  sim->add_option("--jitter", m.jitter, "Share by which step times vary")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 0.9))
      ->group(model);
  sim->callback([options, &status] {
    SimSettings& settings = options->settings;
    read_listen(options->listen, settings);
    EngineSettings& engine = settings.model_settings;
    engine.step_base = in_nanoseconds(options->step_ms, 1e6);
    engine.per_prefill_token = in_nanoseconds(options->prefill_us, 1e3);
    engine.per_decode_sequence = in_nanoseconds(options->sequence_us, 1e3);
    engine.per_kv_token = in_nanoseconds(options->kv_ns, 1);
    status = run_sim(settings);
  });
}

}  // namespace weir::lab

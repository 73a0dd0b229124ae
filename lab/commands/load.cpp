#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <variant>

#include "lab/commands/commands.hpp"
#include "lab/load/load.hpp"
#include "lab/load/trace.hpp"

namespace weir::lab::commands {
namespace {

struct Options {
  load::LoadSettings settings;
  load::LoadOutput output;
  double rate = 0;
  double duration = 0;
  std::string trace;
  std::size_t trace_limit = 0;
};

/// Reads the trace. If it cannot be used, returns false and writes a sentence on standard error.
bool read_trace_file(const Options& options, load::WorkloadSettings& workload) {
  std::ifstream file(options.trace);
  if (!file) {
    std::cerr << "weir-lab load: cannot read the trace " << options.trace << "\n";
    return false;
  }
  auto read = load::read_trace(file, options.trace_limit);
  if (const auto* wrong = std::get_if<std::string>(&read)) {
    std::cerr << "weir-lab load: " << options.trace << ": " << *wrong << "\n";
    return false;
  }
  workload.trace = std::get<std::vector<load::TraceEntry>>(std::move(read));
  return true;
}

}  // namespace

void add_load_command(CLI::App& app, int& status) {
  const auto options = std::make_shared<Options>();
  load::LoadSettings& s = options->settings;
  load::WorkloadSettings& w = s.workload;

  CLI::App* load = app.add_subcommand("load", "Sends streamed requests and measures what a client sees");
  load->footer(
      "TTFT: start to first token. ITL: gaps between token events. TPOT: (last - first token) / (tokens - 1). E2E: "
      "start\n"
      "to the end of the answer. The start is before connecting. Failed requests stay out of them. p99 needs 100 "
      "values.\n"
      "Examples: weir-lab load --url http://127.0.0.1:8080 --concurrency 20 --duration 60\n"
      "          weir-lab load --trace conv.csv --trace-speed 2 --trace-limit 500 --json report.json");
  load->add_option("--url", s.url, "http://host[:port][/prefix]")->capture_default_str();
  load->add_option("--model", s.model, "Model to ask for; not named in the requests unless given");
  load->add_option("--api", s.api, "chat (default), completions or tgi")
      ->transform(CLI::CheckedTransformer(std::map<std::string, load::Api>{{"chat", load::Api::chat},
                                                                           {"completions", load::Api::completions},
                                                                           {"tgi", load::Api::tgi}})
                      .description(""));
  load->add_flag("--usage", s.usage, "Ask for usage; else output tokens are counted by events");
  load->add_option("--timeout", s.timeout, "Seconds a request may take")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  load->add_option("--seed", w.seed, "Lengths, texts, arrivals and request ids follow from it")->capture_default_str();

  const std::string arrivals = "How many, when";
  CLI::Option* concurrency =
      load->add_option("--concurrency", s.concurrency, "Closed load: so many requests are always under way")
          ->capture_default_str()
          ->check(CLI::Range(1, 100'000))
          ->group(arrivals);
  CLI::Option* rate = load->add_option("--rate", options->rate, "Open load: requests a second, Poisson")
                          ->check(CLI::Range(1e-6, 1e6))
                          ->excludes(concurrency)
                          ->group(arrivals);
  CLI::Option* requests =
      load->add_option("--requests", s.requests,
                       "Requests in all, 0 = no limit (60; with --duration or a trace's arrivals: no limit)")
          ->check(CLI::NonNegativeNumber)
          ->group(arrivals);
  CLI::Option* duration = load->add_option("--duration", options->duration,
                                           "Seconds after which nothing more is sent; what runs may finish")
                              ->check(CLI::PositiveNumber)
                              ->group(arrivals);

  const std::string lengths = "How long (normally distributed tokens)";
  load->add_option("--input-tokens", w.input_tokens, "Mean prompt")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 1e7))
      ->group(lengths);
  load->add_option("--input-stddev", w.input_stddev)
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->group(lengths);
  load->add_option("--output-tokens", w.output_tokens, "Mean answer, sent as max_tokens")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 1e7))
      ->group(lengths);
  load->add_option("--output-stddev", w.output_stddev)
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->group(lengths);

  const std::string traces = "From a trace";
  CLI::Option* trace =
      load->add_option("--trace", options->trace,
                       "CSV of TIMESTAMP,ContextTokens,GeneratedTokens: its arrivals and lengths; with --rate or "
                       "--concurrency its lengths only")
          ->group(traces);
  load->add_option("--trace-speed", w.trace_speed, "Divides the trace's times")
      ->capture_default_str()
      ->check(CLI::PositiveNumber)
      ->needs(trace)
      ->group(traces);
  load->add_option("--trace-limit", options->trace_limit, "Entries to use, 0 = all")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->needs(trace)
      ->group(traces);

  const std::string output = "Output";
  load->add_option("--json", options->output.json,
                   "File for the figures as JSON; - = standard output, in place of the table")
      ->group(output);
  load->add_option("--log", options->output.log,
                   "File for a JSON line a request; - = standard output, in place of the table")
      ->group(output);

  load->callback([options, &status, concurrency, rate, requests, duration, trace] {
    load::LoadSettings& settings = options->settings;
    load::WorkloadSettings& workload = settings.workload;
    if (rate->count() > 0) workload.rate = options->rate;
    if (duration->count() > 0) settings.duration = options->duration;
    if (trace->count() > 0) {
      if (!read_trace_file(*options, workload)) {
        status = 2;
        return;
      }
      workload.trace_arrivals = rate->count() == 0 && concurrency->count() == 0;
    }
    if (requests->count() == 0 && (settings.duration || workload.trace_arrivals)) settings.requests = 0;
    status = load::run_load(settings, options->output);
  });
}

}  // namespace weir::lab::commands

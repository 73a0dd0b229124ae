// Replicas that die, hang, slow down and return, in simulated time: the real pool beside round robin with plain health
// checks. Prints the tables of docs/benchmarks.md.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "tests/bench/failure_figures.hpp"

namespace {

using namespace weir;
using bench::FailureSimulation;
using bench::Fault;
using bench::highest_after_return;
using bench::p99;
using bench::quantile;

struct Options {
  std::string trace = WEIR_TEST_DATA "/traces/conv.csv";
  std::uint64_t seeds = 9;
  std::vector<double> loads{0.5};
};

struct Named {
  Fault fault;
  const char* name;
};
constexpr Named faults[] = {{Fault::none, "none"},
                            {Fault::three_of_four, "none, three replicas"},
                            {Fault::kill, "killed"},
                            {Fault::hang, "hung"},
                            {Fault::half_speed, "half speed"},
                            {Fault::wrong_model, "wrong model"},
                            {Fault::flap, "flapping"},
                            {Fault::rolling_restart, "rolling restart"}};

struct Traffic {
  std::vector<bench::TracedRequest> requests;
  double capacity = 0;
};

void print_row(const char* name, const char* system, const bench::FailureRuns& runs) {
  std::vector<double> out, share;
  std::size_t failed = 0, broken = 0, refused = 0, stuck = 0, requests = 0;
  for (const auto& run : runs) {
    if (run.out_after) out.push_back(*run.out_after);
    share.push_back(run.share_of_ill);
    failed += run.failed;
    broken += run.broken;
    refused += run.refused;
    stuck += run.stuck;
    requests += run.answers.size();
  }
  char out_text[32] = "-";
  if (!out.empty()) std::snprintf(out_text, sizeof out_text, "%.2f", std::ranges::max(out));
  const double fault = FailureSimulation::fault_at, back = FailureSimulation::back_at;
  std::printf(
      "| %-20s | %-11s | %6s | %6.3f | %6.3f | %6.3f | %6.3f | %6.1f %% | %6.2f | %5zu | %5zu | %5zu | %5zu | %7zu |\n",
      name, system, out_text, p99(runs, 20, fault), p99(runs, fault, fault + 10), p99(runs, fault + 10, back),
      p99(runs, back, back + 60), 100 * quantile(share, 0.5), highest_after_return(runs), failed, broken, refused,
      stuck, requests);
}

int run(const Options& options) {
  std::ifstream file(options.trace);
  const auto read = lab::load::read_trace(file, 0);
  if (const auto* wrong = std::get_if<std::string>(&read)) {
    std::cerr << "bench_failures: " << options.trace << ": " << *wrong << "\n";
    return 1;
  }
  const auto& trace = std::get<std::vector<bench::TraceEntry>>(read);
  std::vector<Traffic> seeds(options.seeds);
  for (std::size_t s = 0; s < seeds.size(); ++s) {
    seeds[s].requests = bench::requests_of(trace, 6000, s + 1);
    seeds[s].capacity = capacity_of(bench::four_replicas(1), std::span(seeds[s].requests).first(2000));
  }
  for (const double load : options.loads) {
    std::printf("\nLoad %.2f of four replicas, %zu seeds\n\n", load, seeds.size());
    std::printf(
        "| fault                | balancing   | out, s | TTFT p99 before, s | first 10 s | then | after return |"
        " its share | return | failed | broken | refused | stuck | answered |\n"
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for (const Named& named : faults) {
      for (const bool plain : {false, true}) {
        bench::FailureRuns runs;
        for (std::size_t s = 0; s < seeds.size(); ++s) {
          FailureSimulation simulation(plain, named.fault, s + 1);
          runs.push_back(simulation.serve(seeds[s].requests, load * seeds[s].capacity));
        }
        print_row(named.name, plain ? "round robin" : "weir", runs);
      }
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Failing replicas in simulated time: the tables of docs/benchmarks.md", "bench_failures");
  app.add_option("--trace", options.trace, "CSV of TIMESTAMP,ContextTokens,GeneratedTokens")->capture_default_str();
  app.add_option("--seeds", options.seeds, "Runs for each fault")->capture_default_str()->check(CLI::Range(1, 1000));
  app.add_option("--load", options.loads, "Shares of what the four replicas can do together")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 10.0));
  CLI11_PARSE(app, argc, argv);
  return run(options);
}

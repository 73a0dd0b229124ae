// Replicas that die, hang, slow down and return, in simulated time: the real pool beside round robin with plain health
// checks. Prints the tables of tests/bench/results/failures.txt.
#include <cstdio>

#include "metrics/compare/statistics/intervals.hpp"
#include "tests/bench/command_line.hpp"
#include "tests/bench/plan/faults.hpp"

namespace {

using namespace weir;
using namespace lab::plan;

struct Options {
  std::string trace;
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
  std::vector<TracedRequest> requests;
  double capacity = 0;
};

void print_row(const char* name, const char* system, const std::vector<FaultRun>& runs) {
  std::vector<double> out, share;
  std::size_t failed = 0, broken = 0, refused = 0, stuck = 0, requests = 0;
  for (const auto& run : runs) {
    if (run.out_after) out.push_back(*run.out_after);
    share.push_back(run.share_of_ill);
    failed += run.results.failed;
    broken += run.results.broken;
    refused += run.results.refused;
    stuck += run.stuck;
    requests += static_cast<std::size_t>(
        std::ranges::count_if(run.results.requests, [](const auto& one) { return one.ttft.has_value(); }));
  }
  char out_text[32] = "-";
  if (!out.empty()) std::snprintf(out_text, sizeof out_text, "%.2f", std::ranges::max(out));
  const double fault = FaultRun::fault_at, back = FaultRun::back_at;
  std::printf(
      "| %-20s | %-11s | %6s | %6.3f | %6.3f | %6.3f | %6.3f | %6.1f %% | %6.2f | %5zu | %5zu | %5zu | %5zu | %7zu |\n",
      name, system, out_text, p99_ttft(runs, 20, fault), p99_ttft(runs, fault, fault + 10),
      p99_ttft(runs, fault + 10, back), p99_ttft(runs, back, back + 60),
      100 * metrics::compare::statistics::quantile(std::span(share), 0.5), highest_after_return(runs), failed, broken,
      refused, stuck, requests);
}

void run(const Options& options) {
  const auto trace = read_trace_file(options.trace);
  std::vector<Traffic> seeds(options.seeds);
  for (std::size_t s = 0; s < seeds.size(); ++s) {
    seeds[s].requests = requests_of(trace, 6000, s + 1);
    seeds[s].capacity = capacity_of(four_engines(), std::span(seeds[s].requests).first(2000));
  }
  for (const double load : options.loads) {
    std::printf("\nLoad %.2f of four replicas, %zu seeds\n\n", load, seeds.size());
    std::printf(
        "| fault                | balancing   | out, s | TTFT p99 before, s | first 10 s | then | after return |"
        " its share | return | failed | broken | refused | stuck | answered |\n"
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for (const Named& named : faults) {
      for (const bool plain : {false, true}) {
        std::vector<FaultRun> runs;
        for (std::size_t s = 0; s < seeds.size(); ++s) {
          runs.push_back(run_with(named.fault, plain, s + 1, seeds[s].requests, load * seeds[s].capacity));
        }
        print_row(named.name, plain ? "round robin" : "weir", runs);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  bench::CommandLine line("bench_failures", "Failing replicas in simulated time", options.trace);
  line.add("--seeds", options.seeds, "Runs for each fault", 1, 1000);
  line.add("--load", options.loads, "Shares of what the four replicas can do together", 0.01, 10.0);
  return line.run(argc, argv, [&] { run(options); });
}

// Policies in simulated time: the real pool in front of four engine models, one of them at half speed, under the
// arrivals and lengths of a trace, at shares of what the four can do together. docs/benchmarks.md shows how to read it.
//
// Usage: bench_policies [--trace FILE] [--requests N] [--seeds N] [--load SHARE]... [--decode-weight W] [--kv-tokens]
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string_view>

#include "tests/bench/fleet_simulation.hpp"

namespace {

using namespace weir;
using bench::quantile;

struct Options {
  std::string trace = WEIR_TEST_DATA "/traces/conv.csv";
  std::size_t requests = 2000;
  std::uint64_t seeds = 10;
  std::vector<double> loads{0.5, 0.7, 0.85};
  double decode_weight = 0.05;
  double text_spread = 0.15;
  bool kv_tokens = false;
  bool equal = false;
};

struct Named {
  config::Policy policy;
  const char* name;
};
constexpr Named policies[] = {{config::Policy::least_queued_tokens, "least_queued_tokens"},
                              {config::Policy::least_requests, "least_requests"},
                              {config::Policy::power_of_two, "power_of_two"},
                              {config::Policy::round_robin, "round_robin"},
                              {config::Policy::random, "random"}};

/// What the seeds gave, for the median over them and the range.
struct Seeds {
  std::vector<double> p50, p90, p99, slow_share, slow_speed, estimate_error;

  void add(const bench::Served& served, std::size_t slow) {
    p50.push_back(quantile(served.ttft, 0.50));
    p90.push_back(quantile(served.ttft, 0.90));
    p99.push_back(quantile(served.ttft, 0.99));
    double all = 0;
    for (std::size_t r = 0; r < served.prompts.size(); ++r)
      all += static_cast<double>(served.prompts[r] + served.outputs[r]);
    slow_share.push_back(static_cast<double>(served.prompts[slow] + served.outputs[slow]) / all);
    slow_speed.push_back(served.speed[slow]);
    std::vector<double> errors;
    for (const double ratio : served.estimate) errors.push_back(std::abs(ratio - 1));
    estimate_error.push_back(quantile(errors, 0.5));
  }
};

double median(const std::vector<double>& values) { return quantile(values, 0.5); }

int run(const Options& options) {
  std::ifstream file(options.trace);
  const auto read = lab::load::read_trace(file, 0);
  if (const auto* wrong = std::get_if<std::string>(&read)) {
    std::cerr << "bench_policies: " << options.trace << ": " << *wrong << "\n";
    return 2;
  }
  const auto& trace = std::get<std::vector<bench::TraceEntry>>(read);

  std::vector<std::vector<bench::TracedRequest>> requests;
  std::vector<double> capacities;
  for (std::uint64_t seed = 1; seed <= options.seeds; ++seed) {
    requests.push_back(bench::requests_of(trace, options.requests, seed, options.text_spread));
    capacities.push_back(capacity_of(bench::one_of_four_at_half_speed(), requests.back()));
  }
  std::printf("%zu requests of %zu a seed, %zu seeds; four replicas, one at half speed.\n", options.requests,
              trace.size(), requests.size());
  std::printf("Together they answer %.2f requests/s (median; by seed %.2f to %.2f).\n", median(capacities),
              *std::ranges::min_element(capacities), *std::ranges::max_element(capacities));

  for (const double load : options.loads) {
    std::printf("\nload %.2f             TTFT s: p50     p90     p99   (p99 by seed)     slow one: tokens  speed   "
                "p99 highest-to-lowest lead\n", load);
    std::vector<double> best;
    for (const Named& named : policies) {
      Seeds seeds;
      for (std::uint64_t seed = 1; seed <= options.seeds; ++seed) {
        const std::size_t slow = seed % 4;
        bench::Fleet fleet = bench::one_of_four_at_half_speed(slow);
        fleet.kv_tokens_known = options.kv_tokens;
        bench::FleetSimulation simulation(fleet, named.policy, options.decode_weight, seed);
        seeds.add(simulation.serve(requests[seed - 1], load * capacities[seed - 1]), slow);
      }
      if (best.empty()) best = seeds.p99;
      std::size_t beaten = 0;
      for (std::size_t s = 0; s < best.size(); ++s) beaten += best[s] < seeds.p99[s] ? 1 : 0;
      std::printf("%-22s %11.3f %7.3f %7.3f   %6.3f .. %7.3f          %5.1f %% %6.2f   beaten %zu/%zu est %.3f\n", named.name,
                  median(seeds.p50), median(seeds.p90), median(seeds.p99), *std::ranges::min_element(seeds.p99),
                  *std::ranges::max_element(seeds.p99), 100 * median(seeds.slow_share), median(seeds.slow_speed), beaten, best.size(), median(seeds.estimate_error));
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Balancing policies in simulated time", "bench_policies");
  app.add_option("--trace", options.trace, "CSV of TIMESTAMP,ContextTokens,GeneratedTokens")->capture_default_str();
  app.add_option("--requests", options.requests, "Requests a run")->capture_default_str()->check(CLI::Range(100, 10'000'000));
  app.add_option("--seeds", options.seeds, "Runs a policy and load")->capture_default_str()->check(CLI::Range(1, 1000));
  app.add_option("--load", options.loads, "Shares of the joint capacity")->capture_default_str();
  app.add_option("--decode-weight", options.decode_weight)->capture_default_str()->check(CLI::NonNegativeNumber);
  app.add_option("--text-spread", options.text_spread)->capture_default_str()->check(CLI::NonNegativeNumber);
  app.add_flag("--kv-tokens", options.kv_tokens, "The pool is told what the replicas' KV caches hold");
  CLI11_PARSE(app, argc, argv);
  return run(options);
}

// Compares policies in simulated time: the real pool in front of four engine models, one of them slower, under the
// arrivals and lengths of a trace, at shares of what the four can do together. Prints the tables of docs/benchmarks.md.
#include <cstdio>

#include "config/policy_words.hpp"
#include "lab/plan/simulation.hpp"
#include "metrics/compare/statistics/quantile.hpp"
#include "tests/bench/command_line.hpp"

namespace {

using namespace weir;
using namespace lab::plan;

double quantile(std::vector<double> values, double q) {
  return metrics::compare::statistics::quantile(std::span(values), q);
}

struct Options {
  std::string trace;
  std::size_t requests = 2000;
  std::uint64_t seeds = 9;
  std::vector<double> loads{0.5, 0.7, 0.85};
  double slow_speed = 0.5;
  double decode_weight = config::Pool{}.decode_weight;
  double text_spread = usual_text_spread;
  bool kv_tokens = false;
  bool in_order = false;
  bool capacity = false;
};

/// The order of the tables.
constexpr config::Policy policies[] = {config::Policy::least_queued_tokens, config::Policy::least_requests,
                                       config::Policy::power_of_two, config::Policy::round_robin,
                                       config::Policy::random};

/// The requests of one seed, and what the fleet can do with them.
struct Traffic {
  std::vector<TracedRequest> requests;
  double capacity = 0;
};

/// The figures of one policy at one load: each seed gives a value.
struct Figures {
  std::vector<double> ttft_p50, ttft_p90, ttft_p99, tpot_p50, tpot_p99, learned_speed;
  std::vector<std::vector<double>> share;  ///< Shares of all tokens, by replica.

  void add(const Results& results, std::span<const TracedRequest> requests) {
    std::vector<double> ttft, tpot, tokens(results.speed.size());
    double all = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const auto& served = results.requests[i];
      ttft.push_back(*served.ttft);
      if (served.tpot) tpot.push_back(*served.tpot);
      const auto its = static_cast<double>(requests[i].prompt_tokens + requests[i].output_tokens);
      tokens[served.asked.back()] += its;
      all += its;
    }
    ttft_p50.push_back(quantile(ttft, 0.50));
    ttft_p90.push_back(quantile(ttft, 0.90));
    ttft_p99.push_back(quantile(ttft, 0.99));
    tpot_p50.push_back(quantile(tpot, 0.50));
    tpot_p99.push_back(quantile(tpot, 0.99));
    learned_speed.push_back(results.speed.back());
    share.resize(tokens.size());
    for (std::size_t r = 0; r < share.size(); ++r) share[r].push_back(tokens[r] / all);
  }
};

double median(const std::vector<double>& values) { return quantile(values, 0.5); }

Results serve(const Options& options, config::Policy policy, std::uint64_t seed, const Traffic& traffic, double load) {
  Setup setup;
  setup.engines = four_engines(options.slow_speed);
  setup.policy = policy;
  setup.decode_weight = options.decode_weight;
  setup.seed = seed;
  setup.engine_seed = seed * 101;
  setup.kv_tokens_known = options.kv_tokens;
  setup.endless_queue = true;
  setup.probes = false;
  return Simulation(setup).serve(traffic.requests, load * traffic.capacity);
}

/// Returns the median of |estimate / truth - 1| over the estimates from `begin` to `end`.
double estimate_error(const Results& results, std::size_t begin, std::size_t end) {
  std::vector<double> errors;
  for (std::size_t i = begin; i < end; ++i) errors.push_back(std::abs(results.requests[i].estimate - 1));
  return median(errors);
}

void print_load(const Options& options, const std::vector<Traffic>& seeds, double capacity, double load) {
  std::printf("\nLoad %.2f: %.2f requests/s\n\n", load, load * capacity);
  std::printf(
      "| policy              | TTFT p50 s |   p90 s |   p99 s | p99 s by seed    | TPOT p50 ms | p99 ms |"
      " tokens a replica, the slow one last | its learned speed |\n");
  std::printf(
      "|---------------------|-----------:|--------:|--------:|-----------------:|------------:|-------:|"
      "------------------------------------:|------------------:|\n");
  for (const config::Policy policy : policies) {
    Figures figures;
    for (std::size_t s = 0; s < seeds.size(); ++s) {
      figures.add(serve(options, policy, s + 1, seeds[s], load), seeds[s].requests);
    }
    const auto [lowest, highest] = std::ranges::minmax(figures.ttft_p99);
    std::string shares;
    for (const auto& share : figures.share) {
      char text[16];
      std::snprintf(text, sizeof text, "%6.1f %%", 100 * median(share));
      shares += text;
    }
    std::printf("| %-19s | %10.3f | %7.3f | %7.3f | %6.3f to %6.3f | %11.1f | %6.1f | %35s | %17.2f |\n",
                std::string(config::name_of(policy)).c_str(), median(figures.ttft_p50), median(figures.ttft_p90),
                median(figures.ttft_p99), lowest, highest, 1e3 * median(figures.tpot_p50),
                1e3 * median(figures.tpot_p99), shares.c_str(), median(figures.learned_speed));
  }
}

void run(const Options& options) {
  const auto trace = read_trace_file(options.trace);
  std::vector<Traffic> seeds(options.seeds);
  std::vector<double> capacities;
  for (std::size_t s = 0; s < seeds.size(); ++s) {
    seeds[s].requests = requests_of(trace, options.requests, s + 1, options.text_spread, options.in_order);
    seeds[s].capacity = capacity_of(four_engines(options.slow_speed), seeds[s].requests);
    capacities.push_back(seeds[s].capacity);
  }
  if (options.capacity) {
    std::printf("%.3f\n", median(capacities));
    return;
  }

  std::vector<double> early, late;
  for (std::size_t s = 0; s < seeds.size(); ++s) {
    const auto served = serve(options, config::Policy::least_queued_tokens, s + 1, seeds[s], 0.7);
    early.push_back(estimate_error(served, 0, options.requests / 20));
    late.push_back(estimate_error(served, options.requests / 20, options.requests));
  }
  std::printf("%zu requests a run from a trace of %zu, %zu seeds; medians over the seeds.\n", options.requests,
              trace.size(), seeds.size());
  std::printf(
      "Four simulated replicas, one at speed %g; together they answer %.2f requests/s (%.2f to %.2f by seed).\n",
      options.slow_speed, median(capacities), std::ranges::min(capacities), std::ranges::max(capacities));
  std::printf("Prompt estimates: median error %.1f %% in the first twentieth of the requests, %.1f %% in the rest.\n",
              100 * median(early), 100 * median(late));
  for (const double load : options.loads) print_load(options, seeds, median(capacities), load);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  bench::CommandLine line("bench_policies", "Balancing policies in simulated time: the tables of docs/benchmarks.md",
                          options.trace);
  line.add("--requests", options.requests, "Requests a run; the trace is repeated as needed", 100, 10'000'000);
  line.add("--seeds", options.seeds, "Runs for each policy and load: other part of the trace, other jitter", 1, 1000);
  line.add("--load", options.loads, "Shares of what the replicas can do together", 0.01, 10.0);
  line.add("--slow-speed", options.slow_speed, "Speed of the fourth replica; 1 = all are equal", 0.01, 100.0);
  line.add("--decode-weight", options.decode_weight, "As in the settings")->check(CLI::NonNegativeNumber);
  line.add("--text-spread", options.text_spread, "How uneven the texts are that prompts are estimated from", 0.0, 1.0);
  line.add_flag("--kv-tokens", options.kv_tokens, "Tell the pool what the replicas' KV caches hold");
  line.add_flag("--in-order", options.in_order, "Begin every run at the first entry of the trace");
  line.add_flag("--capacity", options.capacity, "Print the requests/s that the replicas answer together, and no more");
  return line.run(argc, argv, [&] { run(options); });
}

// Compares weir with other routers where prompts repeat earlier ones (lab/plan/workloads.hpp), in simulated time, at
// shares of what the replicas can do if they save what one cache of their size would.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/plan/workloads.hpp"
#include "metrics/compare/statistics/quantile.hpp"
#include "tests/bench/command_line.hpp"

namespace {

using namespace weir;
using namespace lab::plan;

/// Who places the requests.
struct Arm {
  std::string_view name;
  config::Policy policy = config::Policy::least_queued_tokens;
  std::optional<Peer> peer{};
  bool prefix_aware = false;
  std::optional<double> kappa{};
  bool oracle = false;
};

std::vector<Arm> arms() {
  constexpr auto tokens = config::Policy::least_queued_tokens;
  std::vector<Arm> all{{"weir", tokens, {}, true},
                       {"weir_that_knows", tokens, {}, true, {}, true},
                       {"no_prefixes"},
                       {"kappa_1", tokens, {}, true, 1.0},
                       {"kappa_1.05", tokens, {}, true, 1.05},
                       {"kappa_2", tokens, {}, true, 2.0},
                       {"kappa_4", tokens, {}, true, 4.0},
                       {"least_requests", config::Policy::least_requests}};
  for (const auto& [name, peer] : peer_words) all.push_back({name, {}, peer});
  return all;
}

struct Options {
  std::string mooncake;
  std::vector<std::string> workloads, arms;
  std::vector<double> loads{0.5, 0.7, 0.85};
  std::uint64_t seeds = 3;
};

/// The figures of an arm at one load: each seed gives a value.
struct Figures {
  std::vector<double> ttft_p50, ttft_p99, tpot_p99, computed, saved, lost;

  /// Times are those of requests that arrived while others still came, and after the caches had begun to fill.
  void add(const Workload& workload, const Results& results, double rate) {
    const double span = static_cast<double>(workload.requests.size()) / rate;
    std::vector<double> ttft, tpot;
    for (const Served& served : results.requests) {
      if (served.arrived < 0.15 * span || served.arrived > span) continue;
      if (served.ttft) ttft.push_back(*served.ttft);
      if (served.tpot) tpot.push_back(*served.tpot);
    }
    const auto quantile = [](std::vector<double>& values, double q) {
      return metrics::compare::statistics::quantile(std::span(values), q);
    };
    ttft_p50.push_back(quantile(ttft, 0.50));
    ttft_p99.push_back(quantile(ttft, 0.99));
    tpot_p99.push_back(quantile(tpot, 0.99));
    double prefilled = 0;
    for (const std::uint64_t tokens : results.prefilled) prefilled += static_cast<double>(tokens);
    computed.push_back(prefilled / 1e3);
    if (workload.repeated > 0) {
      const double uncomputed = static_cast<double>(workload.prompt_tokens) - prefilled;
      saved.push_back(uncomputed / static_cast<double>(workload.repeated));
    }
    lost.push_back(static_cast<double>(results.failed + results.broken + results.refused));
  }
};

double median(std::vector<double> values) {
  return values.empty() ? 0 : metrics::compare::statistics::quantile(std::span(values), 0.5);
}

bool is_chosen(const std::vector<std::string>& chosen, std::string_view name) {
  return chosen.empty() || std::ranges::find(chosen, name) != chosen.end();
}

void print(const std::vector<Workload>& seeds, const Arm& arm, double load) {
  Figures figures;
  for (std::size_t s = 0; s < seeds.size(); ++s) {
    Setup setup;
    setup.policy = arm.policy;
    setup.peer = arm.peer;
    setup.prefix_aware = arm.prefix_aware;
    setup.kappa = arm.kappa;
    setup.oracle = arm.oracle;
    setup.kv_tokens_known = true;
    setup.seed = s + 1;
    setup.engine_seed = (s + 1) * 101;
    setup.endless_queue = true;
    figures.add(seeds[s], serve(seeds[s], setup, load), load * seeds[s].capacity);
  }
  std::printf("| %4.2f | %-14s | %10.3f | %7.3f | %11.1f | %15.0f | ", load, std::string(arm.name).c_str(),
              median(figures.ttft_p50), median(figures.ttft_p99), 1e3 * median(figures.tpot_p99),
              median(figures.computed));
  if (figures.saved.empty()) {
    std::printf("%8s", "-");
  } else {
    std::printf("%6.1f %%", 100 * median(figures.saved));
  }
  std::printf(" | %4.0f |\n", median(figures.lost));
  std::fflush(stdout);
}

void run(const Options& options) {
  for (const auto& [name, kind] : kind_words) {
    if (!is_chosen(options.workloads, name)) continue;
    std::vector<Workload> seeds;
    std::vector<double> capacity, repeated;
    for (std::uint64_t seed = 1; seed <= options.seeds; ++seed) {
      const Workload& made = seeds.emplace_back(make_workload(kind, seed, options.mooncake));
      capacity.push_back(made.capacity);
      repeated.push_back(static_cast<double>(made.repeated) / static_cast<double>(made.prompt_tokens));
    }
    std::printf("\n%s: %zu requests of %.0f prompt tokens, %.0f %% of which repeat; "
                "%.2f requests/s are a load of 1\n\n",
                std::string(name).c_str(), seeds.front().requests.size(),
                static_cast<double>(seeds.front().prompt_tokens) / static_cast<double>(seeds.front().requests.size()),
                100 * median(repeated), median(capacity));
    std::printf("| load | arm            | TTFT p50 s |   p99 s | TPOT p99 ms | prefill, 1000 t |    saved | lost |\n");
    std::printf("|-----:|----------------|-----------:|--------:|------------:|----------------:|---------:|-----:|\n");
    for (const double load : options.loads)
      for (const Arm& arm : arms())
        if (is_chosen(options.arms, arm.name)) print(seeds, arm, load);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  bench::CommandLine line("bench_prefix", "Routers where prompts repeat earlier ones, in simulated time",
                          options.mooncake);
  options.mooncake = WEIR_TEST_DATA "/traces/mooncake_conversation.jsonl";
  line.get_option("--trace")->description("Mooncake's conversation trace, or a part of it")->capture_default_str();
  std::vector<std::string> workload_names, arm_names;
  for (const auto& [name, kind] : kind_words) workload_names.emplace_back(name);
  for (const Arm& arm : arms()) arm_names.emplace_back(arm.name);
  line.add_option("--workload", options.workloads, "Only these")->check(CLI::IsMember(workload_names));
  line.add_option("--arm", options.arms, "Only these")->check(CLI::IsMember(arm_names));
  line.add("--load", options.loads,
           "Shares of what the replicas can do if they save what one cache of their size would", 0.01, 10.0);
  line.add("--seeds", options.seeds, "Runs for each row; the table has their medians", 1, 1000);
  return line.run(argc, argv, [&] { run(options); });
}

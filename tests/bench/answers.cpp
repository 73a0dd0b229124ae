// How often faults and other answers are found, how soon, and how often where there are none: prints the tables of
// tests/bench/results/answers.txt. Everything is simulated but the evidence itself.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>

#include "tests/bench/greedy_answers.hpp"

namespace weir::bench {
namespace {

namespace compare = metrics::compare;

/// Returns "1234", or "-" if fewer than half of the runs got there.
std::string median(std::vector<std::size_t> counts, std::size_t runs) {
  if (2 * counts.size() <= runs) return "-";
  std::ranges::sort(counts);
  return std::to_string(counts[runs / 2]);
}

double share(std::size_t count, std::size_t runs) {
  return 100 * static_cast<double>(count) / static_cast<double>(runs);
}

void same_answers(std::size_t runs, std::size_t requests) {
  std::printf(
      "\nThe same answers or not: %zu runs of %zu requests each.\n\n"
      "| divergences of the control per 1000 tokens | ratio of hazards | differ from the start | `differs` ever | "
      "median "
      "requests | `same` first | median requests |\n|---:|---:|---:|---:|---:|---:|---:|\n",
      runs, requests);
  std::vector<Hazards> all;
  for (const double control : {0.05, 0.5, 2.0}) {
    for (const double ratio : {1.0, 1.25, 1.5, 2.0, 5.0}) all.push_back({control, ratio, 0});
  }
  for (const double from_start : {0.03, 0.1, 0.3}) all.push_back({0.5, 1, from_start});
  for (const Hazards& hazards : all) {
    std::vector<std::size_t> same, differs;
    std::size_t ever = 0, first = 0;
    for (std::size_t run = 0; run < runs; ++run) {
      const FirstWords words(GreedyAnswers(hazards, requests, run), requests);
      if (words.differs > 0) differs.push_back(words.differs);
      if (words.same > 0) same.push_back(words.same);
      ever += words.differs > 0;
      first += words.same > 0;
    }
    std::printf("| %g | %g | %g %% | %.1f %% | %s | %.1f %% | %s |\n", hazards.control, hazards.ratio,
                100 * hazards.from_start, share(ever, runs), median(differs, runs).c_str(), share(first, runs),
                median(same, runs).c_str());
    std::fflush(stdout);
  }
}

/// Both sides fail by themselves.
void faults(std::size_t runs, std::size_t requests) {
  std::printf(
      "\nFailures: %zu runs of %zu pairs each.\n\n"
      "| a fails | b fails | `worse` ever | median pairs | `better` ever | `not_worse` at the end |\n"
      "|---:|---:|---:|---:|---:|---:|\n",
      runs, requests);
  using compare::statistics::Finding;
  struct Shares {
    double a, b;
  };
  for (const Shares& shares :
       {Shares{0, 0}, Shares{0.001, 0.001}, Shares{0.01, 0.01}, Shares{0.1, 0.1}, Shares{0, 0.002}, Shares{0, 0.005},
        Shares{0, 0.01}, Shares{0, 0.018}, Shares{0.01, 0.015}, Shares{0.01, 0.02}}) {
    std::vector<std::size_t> worse;
    std::size_t better = 0, not_worse = 0;
    for (std::size_t run = 0; run < runs; ++run) {
      std::mt19937_64 random(run);
      std::bernoulli_distribution fails_a(shares.a), fails_b(shares.b);
      compare::pairs::FaultPairs found{.fault = compare::pairs::Fault::failed, .pairs = {}, .margin = 0.002};
      std::size_t first = 0;
      for (std::size_t n = 1; n <= requests; ++n) {
        const bool a = fails_a(random), b = fails_b(random);
        found.pairs.add(a, b);
        if (first == 0 && found.judge() == Finding::worse) first = n;
      }
      if (first > 0) worse.push_back(first);
      better += found.judge() == Finding::better;
      not_worse += found.judge() == Finding::not_worse;
    }
    std::printf("| %g %% | %g %% | %.1f %% | %s | %.1f %% | %.1f %% |\n", 100 * shares.a, 100 * shares.b,
                share(worse.size(), runs), median(worse, runs).c_str(), share(better, runs), share(not_worse, runs));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  CLI::App line("How soon faults and other answers are found", "bench_answers");
  std::size_t runs = 300, requests = 10'000;
  line.add_option("--runs", runs, "Runs of each kind")->capture_default_str()->check(CLI::Range(1, 100'000));
  line.add_option("--requests", requests, "Requests of a run")->capture_default_str()->check(CLI::Range(20, 1'000'000));
  CLI11_PARSE(line, argc, argv);
  weir::bench::faults(runs, requests);
  weir::bench::same_answers(runs, requests);
}

// Rollouts by the hundred, in simulated time: how often a bad candidate goes back, how often an equal one arrives, and
// what clients see meanwhile. Prints the table of tests/bench/results/rollouts.txt.
#include <cstdio>
#include <map>
#include <string>

#include "metrics/compare/statistics/intervals.hpp"
#include "tests/bench/command_line.hpp"
#include "tests/bench/rollout_simulation.hpp"

namespace weir::bench {
namespace {

struct Options {
  std::string trace;
  std::size_t rollouts = 100;
  std::uint64_t first_seed = 1;
  std::vector<std::string> kinds;
  bool tell = false;
  RolloutOptions run;
};

struct Kind {
  const char* name;
  const char* what;
  Candidate candidate;
};
const Kind kinds[] = {
    {"equal", "equal", {}},
    {"slower", "steps take 10 % longer", {.step = 1.1}},
    {"failing", "1 % of requests get 500", {.fails = 0.01}},
    {"freezing", "all streams stand still for 0.5 s, each 40 s in the mean", {.freeze_s = 0.5}},
    {"other", "answers leave the primary's text 5 times as soon", {.leaves = 5}},
    {"hangs", "hangs in the live steps", {.dies = Death::hangs}},
    {"refuses", "refuses connections in the live steps", {.dies = Death::refuses}},
};

std::string listed(const std::map<std::string, std::size_t>& counts) {
  std::string all;
  for (const auto& [name, count] : counts) all += (all.empty() ? "" : ", ") + name + " " + std::to_string(count);
  return all;
}

void run(const Options& options) {
  const auto trace = read_trace_file(options.trace);
  const RolloutTraffic traffic(trace, static_cast<std::size_t>(options.run.rate * options.run.longest) + 100, 1);
  std::printf(
      "\n%zu rollouts of each candidate, %g requests/s, drift %.0f %% and %.0f s, %s\n\n"
      "| candidate | back | arrived | paused | why | from | hours, median and longest | seconds after its death, "
      "longest | requests beyond the step's share, highest | clients with an error, of all requests "
      "| after the return |\n"
      "|---|---:|---:|---:|---|---|---:|---:|---:|---:|---:|\n",
      options.rollouts, options.run.rate, 100 * options.run.drift_sd, options.run.drift_s,
      options.run.slo ? "an objective" : "no objective");
  for (const Kind& kind : kinds) {
    if (!options.kinds.empty() && std::ranges::find(options.kinds, kind.name) == options.kinds.end()) continue;
    std::map<std::string, std::size_t> states, reasons, steps;
    std::vector<double> hours;
    double noticed = 0, beyond = 0;
    std::size_t harmed = 0, requests = 0, after = 0;
    for (std::size_t i = 0; i < options.rollouts; ++i) {
      const auto ended = RolloutRun(traffic, kind.candidate, options.run, options.first_seed + i).run();
      ++states[std::string(name_of(ended.state))];
      ++reasons[std::string(name_of(ended.reason))];
      ++steps[ended.step];
      hours.push_back(ended.hours);
      noticed = std::max(noticed, ended.noticed_s);
      beyond = std::max(beyond, (static_cast<double>(ended.candidates) - ended.due) /
                                    static_cast<double>(std::max<std::size_t>(1, ended.requests)));
      harmed += ended.harmed;
      requests += ended.requests;
      after += ended.after;
      if (options.tell) std::fprintf(stderr, "%s %zu: %s\n", kind.name, i, ended.why.c_str());
    }
    std::printf("| %s | %zu | %zu | %zu | %s | %s | %.2f, %.2f | %.0f | %.2f %% | %zu of %zu | %zu |\n", kind.what,
                states["returned"], states["done"], states["paused"], listed(reasons).c_str(), listed(steps).c_str(),
                compare::statistics::quantile(std::span(hours), 0.5), std::ranges::max(hours), noticed, 100 * beyond,
                harmed, requests, after);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  using namespace weir::bench;
  Options options;
  bool same_answers = false;
  CommandLine line("bench_rollouts", "Rollouts in simulated time", options.trace);
  line.add("--rollouts", options.rollouts, "Rollouts of each candidate", 1, 10'000);
  line.add("--seed", options.first_seed, "Seed of the first rollout; the others follow");
  line.add("--kind", options.kinds,
           "Candidates: equal, slower, failing, freezing, other, hangs, refuses. All if absent");
  line.add("--drift", options.run.drift_sd, "Standard deviation of the GPUs' speed", 0.0, 0.2);
  line.add("--drift-time", options.run.drift_s, "Its time, in seconds", 1.0, 36'000.0);
  line.add("--rate", options.run.rate, "Requests a second", 0.1, 100.0);
  line.add("--speed", options.run.speed, "Speed of the GPUs", 0.1, 10.0);
  line.add("--gate-every", options.run.gate_every, "Seconds between two questions to the gate", 1.0, 600.0);
  line.add_flag("--slo", options.run.slo, "An objective counts: TTFT 1 s, TPOT 50 ms");
  line.add_flag("--same-answers", same_answers, "A candidate that answers otherwise goes back");
  line.add_flag("--tell", options.tell, "Tell of each rollout on standard error");
  return line.run(argc, argv, [&] {
    if (same_answers) options.run.answers = weir::config::OtherAnswers::same;
    run(options);
  });
}

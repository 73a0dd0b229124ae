// Do the verdicts of metrics::compare hold? Twins in simulated time, a thousand windows: how often two equal engines
// are called different, how often a slower one is found, and how often the interval holds the truth. Prints the tables
// of tests/bench/results/twins.txt.
#include <array>
#include <cstdio>
#include <map>
#include <string>

#include "metrics/compare/comparison/gate.hpp"
#include "metrics/compare/statistics/quantile.hpp"
#include "tests/bench/command_line.hpp"
#include "tests/bench/tally.hpp"
#include "tests/bench/twin_simulation.hpp"

namespace {

using namespace weir;
using namespace weir::bench;

struct Options {
  std::string trace;
  std::size_t windows = 1000, truth_arrivals = 100, truth_runs = 40;
  std::vector<double> minutes{20, 30, 60}, drifts{60, 300};
  double load = 0.6, step = 1.05;
  std::vector<std::string> parts{"same", "slower", "stalls", "sample", "gate", "minorities"};
};

struct Bench {
  const Options& options;
  std::vector<TraceEntry> trace;
  double rate = 0;  ///< Requests a second that are the load.

  double longest_s() const { return 60 * std::ranges::max(options.minutes); }
  std::vector<Arrival> arrivals(std::uint64_t seed) const { return arrivals_of(trace, rate, longest_s(), seed); }
};

using Tallies = std::map<double, Tally>;  ///< By minutes.

/// Returns the estimate of a window, on its own scale.
double mean_of(const Comparison& comparison, Metric metric) {
  for (const Verdict& verdict : comparison.verdicts) {
    if (verdict.metric == metric && verdict.effect) return verdict.effect->mean;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

/// Judges the beginnings of these samples, one of each length.
template <class Judged>
void judge(const Bench& bench, Samples samples, const Judged& judged) {
  for (const double minutes : bench.options.minutes) judged(minutes, samples.judge(60 * minutes));
}

Samples twins_of(const Bench& bench, const Engine& candidate, const Drift& drift, std::span<const Arrival> arrivals,
                 std::uint64_t seed) {
  const auto a = serve(Engine{}, drift, bench.trace, arrivals, seed_of(seed, 101));
  const auto b = serve(candidate, drift, bench.trace, arrivals, seed_of(seed, 102));
  return twins(arrivals, a, b);
}

void same(const Bench& bench) {
  std::printf(
      "\nThe same configuration twice: windows with a false verdict, of %zu. The family are slo, ttft, tpot and output "
      "tokens.\n\n"
      "| drift | window | pairs | family | slo | ttft | tpot | output tokens | tails' family | ttft tail | tpot tail | "
      "ttft, tpot `equivalent` | 0 in the interval of ttft, tpot | `slow_drift` |\n"
      "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
      bench.options.windows);
  double met = 0;
  for (const double time_s : bench.options.drifts) {
    Tallies tallies;
    for (std::size_t w = 0; w < bench.options.windows; ++w) {
      const auto arrivals = bench.arrivals(w + 1);
      const Drift drift{.sd = 0.02, .time_s = time_s};
      judge(bench, twins_of(bench, Engine{}, drift, arrivals, 1'000'000 + w),
            [&](double minutes, const Comparison& one) {
              tallies[minutes].add(one);
              for (const Metric metric : {Metric::ttft, Metric::tpot}) tallies[minutes].check(one, metric, 0);
            });
    }
    for (const auto& [minutes, tally] : tallies) {
      std::printf(
          "| %.0f s | %.0f min | %.0f | %zu | %zu | %zu | %zu | %zu | %zu | %zu | %zu | %.1f %%, %.1f %% | %.1f %%, "
          "%.1f "
          "%% | %.1f %% |\n",
          time_s, minutes, tally.pairs(), tally.families(), tally.different(Metric::slo), tally.different(Metric::ttft),
          tally.different(Metric::tpot), tally.different(Metric::output_tokens), tally.tails(),
          tally.different(Metric::ttft_tail), tally.different(Metric::tpot_tail),
          tally.share(Metric::ttft, Finding::equivalent), tally.share(Metric::tpot, Finding::equivalent),
          tally.share(tally.covered(Metric::ttft)), tally.share(tally.covered(Metric::tpot)),
          tally.share(tally.notes("slow_drift")));
      met = tally.met();
    }
    std::fflush(stdout);
  }
  std::printf("\nThe primary met the objective with %.1f %% of its requests.\n", met);
}

void slower(const Bench& bench) {
  const Options& options = bench.options;
  const std::size_t sets = std::min(options.truth_arrivals, options.windows);
  std::printf(
      "\nA candidate whose steps take %.1f %% longer; %zu windows, of which each %zu have the same arrivals. The truth "
      "is "
      "the mean estimate of %zu other runs of them.\n\n"
      "| drift | window | tpot `worse` | ttft `worse` | slo `worse` | tails `worse`: ttft, tpot | output tokens differ "
      "| "
      "true tpot | true ttft | half the interval of tpot | truth in the interval: tpot | ttft |\n"
      "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
      100 * (options.step - 1), options.windows, options.windows / sets, options.truth_runs);
  Engine candidate;
  candidate.step = options.step;
  for (const double time_s : options.drifts) {
    const Drift drift{.sd = 0.02, .time_s = time_s};
    Tallies tallies;
    std::map<double, double> true_ttft, true_tpot;  // By minutes, the sum over the sets.
    for (std::size_t set = 0; set < sets; ++set) {
      const auto arrivals = bench.arrivals(5'000 + set);
      std::map<double, double> ttft, tpot;
      for (std::size_t run = 0; run < options.truth_runs; ++run) {
        judge(bench, twins_of(bench, candidate, drift, arrivals, 2'000'000 + set * options.truth_runs + run),
              [&](double minutes, const Comparison& one) {
                ttft[minutes] += mean_of(one, Metric::ttft) / static_cast<double>(options.truth_runs);
                tpot[minutes] += mean_of(one, Metric::tpot) / static_cast<double>(options.truth_runs);
              });
      }
      for (std::size_t w = set; w < options.windows; w += sets) {
        judge(bench, twins_of(bench, candidate, drift, arrivals, 3'000'000 + w),
              [&](double minutes, const Comparison& one) {
                tallies[minutes].add(one);
                tallies[minutes].check(one, Metric::ttft, ttft[minutes]);
                tallies[minutes].check(one, Metric::tpot, tpot[minutes]);
              });
      }
      for (const double minutes : options.minutes) {
        true_ttft[minutes] += ttft[minutes] / static_cast<double>(sets);
        true_tpot[minutes] += tpot[minutes] / static_cast<double>(sets);
      }
    }
    for (const auto& [minutes, tally] : tallies) {
      std::printf(
          "| %.0f s | %.0f min | %.1f %% | %.1f %% | %.1f %% | %.1f %%, %.1f %% | %.1f %% | %+.1f %% | %+.1f %% | %.1f "
          "%% "
          "| %.1f %% | %.1f %% |\n",
          time_s, minutes, tally.share(Metric::tpot, Finding::worse), tally.share(Metric::ttft, Finding::worse),
          tally.share(Metric::slo, Finding::worse), tally.share(Metric::ttft_tail, Finding::worse),
          tally.share(Metric::tpot_tail, Finding::worse), tally.share(tally.different(Metric::output_tokens)),
          100 * std::expm1(true_tpot[minutes]), 100 * std::expm1(true_ttft[minutes]), tally.reach(Metric::tpot),
          tally.share(tally.covered(Metric::tpot)), tally.share(tally.covered(Metric::ttft)));
    }
    std::fflush(stdout);
  }
}

/// Stalls: a step in `every` takes `times` as long. Then either the other steps are the primary's, or the median TPOT
/// is.
struct Stalls {
  std::uint64_t every;
  double times;
  bool usual_tpot;
};
constexpr Stalls kinds_of_stalls[] = {{20, 5, false}, {20, 5, true}, {200, 50, true}, {1000, 100, true}};

void stalls(const Bench& bench) {
  std::printf(
      "\nA candidate with stalls, drift 60 s, %zu windows. Its other steps are as long as the primary's, so that the "
      "median step is the same; or so much shorter that the median TPOT is.\n\n"
      "| stalls | other steps | window | tail `worse`: tpot | ttft | either | estimate of the tail: tpot | ttft | "
      "median "
      "of tpot: estimate | `worse` | `better` | median of ttft: estimate | `worse` | `better` |\n"
      "|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
      bench.options.windows);
  for (const Stalls& kind : kinds_of_stalls) {
    Engine candidate;
    candidate.stall = kind.times;
    candidate.stall_every = kind.every;
    if (kind.usual_tpot) candidate = with_usual_tpot(candidate, bench.trace, bench.arrivals(1), 1);
    Tallies tallies;
    std::map<double, std::size_t> either;
    for (std::size_t w = 0; w < bench.options.windows; ++w) {
      const auto arrivals = bench.arrivals(w + 1);
      judge(bench, twins_of(bench, candidate, {}, arrivals, 4'000'000 + w), [&](double minutes, const Comparison& one) {
        tallies[minutes].add(one);
        either[minutes] += std::ranges::any_of(one.verdicts, [](const Verdict& verdict) {
          return compare::statistics::is_tail(verdict.metric) && verdict.finding == Finding::worse;
        });
      });
    }
    for (const auto& [minutes, tally] : tallies) {
      std::printf(
          "| one in %llu, %g times | %.3f | %.0f min | %.1f %% | %.1f %% | %.1f %% | %+.0f %% | %+.0f %% | %+.1f %% | "
          "%.1f %% | %.1f %% | %+.1f %% | %.1f %% | %.1f %% |\n",
          static_cast<unsigned long long>(kind.every), kind.times, candidate.step, minutes,
          tally.share(Metric::tpot_tail, Finding::worse), tally.share(Metric::ttft_tail, Finding::worse),
          tally.share(either[minutes]), tally.estimate(Metric::tpot_tail), tally.estimate(Metric::ttft_tail),
          tally.estimate(Metric::tpot), tally.share(Metric::tpot, Finding::worse),
          tally.share(Metric::tpot, Finding::better), tally.estimate(Metric::ttft),
          tally.share(Metric::ttft, Finding::worse), tally.share(Metric::ttft, Finding::better));
    }
    std::fflush(stdout);
  }
}

void sample(const Bench& bench) {
  std::printf(
      "\nA shadow of the primaries' own configuration gets one in ten of the requests of four primaries; drift 60 s, "
      "%zu windows. `same_load` says that the loads were the same, which is not so.\n\n"
      "| lines | window | pairs | tpot `better` | ttft `better` | `worse`: tpot, ttft | estimate: tpot | ttft | note "
      "`load_differs` | `spared_load` | no verdict on latency |\n"
      "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
      bench.options.windows);
  constexpr std::array<const char*, 4> names{"all", "all, `same_load`", "the mirrored alone",
                                             "the mirrored alone, `same_load`"};
  std::array<Tallies, 4> ways;
  for (std::size_t w = 0; w < bench.options.windows; ++w) {
    const auto arrivals = arrivals_of(bench.trace, 4 * bench.rate, bench.longest_s(), w + 1);
    Sampled samples = sampled(Engine{}, {}, bench.trace, arrivals, 6'000'000 + w);
    for (std::size_t way = 0; way < ways.size(); ++way) {
      Samples& lines = way < 2 ? samples.all : samples.mirrored;
      lines.options.same_load = way % 2 == 1 ? std::optional(true) : std::nullopt;
      for (const double minutes : bench.options.minutes) ways[way][minutes].add(lines.judge(60 * minutes));
    }
  }
  for (std::size_t way = 0; way < ways.size(); ++way) {
    for (const auto& [minutes, tally] : ways[way]) {
      std::printf(
          "| %s | %.0f min | %.0f | %.1f %% | %.1f %% | %.1f %%, %.1f %% | %+.1f %% | %+.1f %% | %.1f %% | %.1f %% | "
          "%.1f %% |\n",
          names[way], minutes, tally.pairs(), tally.share(Metric::tpot, Finding::better),
          tally.share(Metric::ttft, Finding::better), tally.share(Metric::tpot, Finding::worse),
          tally.share(Metric::ttft, Finding::worse), tally.estimate(Metric::tpot), tally.estimate(Metric::ttft),
          tally.share(tally.notes("load_differs")), tally.share(tally.notes("spared_load")),
          tally.share(std::min(tally.withheld(Metric::tpot), tally.withheld(Metric::ttft))));
    }
  }
}

/// Returns a limit of TTFT that this share of the primary's requests is above, in seconds.
double ttft_above(double share, const Bench& bench, const Drift& drift) {
  std::vector<double> times;
  for (std::uint64_t run = 0; run < 10; ++run) {
    for (const Answer& answer : serve(Engine{}, drift, bench.trace, bench.arrivals(8'000 + run), seed_of(run, 103)))
      times.push_back(answer.ttft);
  }
  return compare::statistics::quantile(std::span(times), 1 - share);
}

const Verdict& verdict_of(const Comparison& comparison, Metric metric) {
  return *std::ranges::find(comparison.verdicts, metric, &Verdict::metric);
}

/// Words of the gate about windows of one kind.
struct Gates {
  std::size_t windows = 0, pass = 0, by_ratio = 0, worse = 0;
  std::map<std::string, std::size_t> open;  ///< By the guardrail that was not known.

  void add(const Comparison& comparison) {
    const auto gate = compare::comparison::gate_of(comparison);
    const Verdict& misses = verdict_of(comparison, Metric::slo);
    ++windows;
    worse += gate.word == compare::comparison::Gate::worse;
    if (gate.word == compare::comparison::Gate::pass) {
      ++pass;
      by_ratio += misses.finding != Finding::not_worse ||
                  compare::statistics::is_below_worse_margin(compare::comparison::effect_of(misses));
    }
    for (const std::string& sentence : gate.unknown) ++open[sentence.substr(0, sentence.find(':'))];
  }
  double share(std::size_t count) const { return 100 * static_cast<double>(count) / static_cast<double>(windows); }
};

void gate(const Bench& bench) {
  std::printf(
      "\nThe gate of equal twins with an objective for TTFT, by the share of the primary's requests that miss it; %zu "
      "windows. `ratio`: passes if points did not count.\n\n"
      "| misses | drift | window | passes | ratio | stopped | not known |\n|---:|---|---|---:|---:|---:|---|\n",
      bench.options.windows);
  for (const double share : {0.003, 0.01, 0.025, 0.1}) {
    for (const double time_s : bench.options.drifts) {
      const Drift drift{.sd = time_s > 0 ? 0.02 : 0, .time_s = std::max(time_s, 1.0)};
      const config::Slo slo{"chat", "chat", {}, config::Seconds(ttft_above(share, bench, drift)), {}, {}};
      std::map<double, Gates> gates;
      for (std::size_t w = 0; w < bench.options.windows; ++w) {
        Samples samples = twins_of(bench, Engine{}, drift, bench.arrivals(w + 1), 7'000'000 + w);
        samples.options.slo = slo;
        judge(bench, std::move(samples), [&](double minutes, const Comparison& one) { gates[minutes].add(one); });
      }
      for (const auto& [minutes, of] : gates) {
        std::printf("| %.1f %% | %.0f s | %.0f min | %.0f %% | %.0f %% | %.0f %% |", 100 * share, time_s, minutes,
                    of.share(of.pass), of.share(of.by_ratio), of.share(of.worse));
        for (const auto& [name, count] : of.open) std::printf(" %s %.0f %%", name.c_str(), of.share(count));
        std::printf(" |\n");
      }
      std::fflush(stdout);
    }
  }
}

/// The share of the candidate's answers that take so many times as long, to the first token and by token.
struct SlowFew {
  double share, ttft, tpot;
};
constexpr SlowFew kinds_of_minorities[] = {{0, 1, 1},     {0.02, 3, 1}, {0.02, 10, 1}, {0.05, 3, 1},
                                           {0.05, 10, 1}, {0.02, 1, 2}, {0.05, 1, 2}};

void minorities(const Bench& bench) {
  std::printf(
      "\nA candidate that serves a few requests more slowly; %zu windows. The medians are about the primary's.\n\n"
      "| of the requests | TTFT | TPOT | drift | window | `ttft_minority` worse | `tpot_minority` worse | gate worse "
      "|\n"
      "|---:|---:|---:|---|---|---:|---:|---:|\n",
      bench.options.windows);
  for (const SlowFew& kind : kinds_of_minorities) {
    for (const double time_s : bench.options.drifts) {
      const Drift drift{.sd = time_s > 0 ? 0.02 : 0, .time_s = std::max(time_s, 1.0)};
      Tallies tallies;
      std::map<double, Gates> gates;
      for (std::size_t w = 0; w < bench.options.windows; ++w) {
        const auto arrivals = bench.arrivals(w + 1);
        const auto a = serve(Engine{}, drift, bench.trace, arrivals, seed_of(9'000'000 + w, 101));
        auto b = serve(Engine{}, drift, bench.trace, arrivals, seed_of(9'000'000 + w, 102));
        Random few(seed_of(w, 104));
        for (Answer& answer : b) {
          if (few.uniform() >= kind.share) continue;
          answer.ttft *= kind.ttft;
          answer.tpot *= kind.tpot;
          const auto later = static_cast<double>(std::max<std::uint64_t>(answer.output_tokens, 1) - 1);
          answer.e2e = answer.ttft + answer.tpot * later;
        }
        judge(bench, twins(arrivals, a, b), [&](double minutes, const Comparison& one) {
          tallies[minutes].add(one);
          gates[minutes].add(one);
        });
      }
      for (const auto& [minutes, tally] : tallies) {
        std::printf("| %.0f %% | x%g | x%g | %.0f s | %.0f min | %.1f %% | %.1f %% | %.1f %% |\n", 100 * kind.share,
                    kind.ttft, kind.tpot, time_s, minutes, tally.share(Metric::ttft_minority, Finding::worse),
                    tally.share(Metric::tpot_minority, Finding::worse), gates[minutes].share(gates[minutes].worse));
      }
      std::fflush(stdout);
    }
  }
}

void run(const Options& options) {
  Bench bench{options, read_trace_file(options.trace)};
  const double capacity = capacity_of(EngineSettings{}, bench.trace);
  bench.rate = options.load * capacity;
  std::printf("A trace of %zu requests. One engine answers %.2f of them a second; load %.2f is %.2f a second.\n",
              bench.trace.size(), capacity, options.load, bench.rate);
  const std::map<std::string, void (*)(const Bench&)> parts{
      {"same", same}, {"slower", slower}, {"stalls", stalls},
      {"sample", sample}, {"gate", gate}, {"minorities", minorities}};
  for (const std::string& part : options.parts) parts.at(part)(bench);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine line("bench_twins", "Verdicts on twins in simulated time", options.trace);
  line.add_option("parts", options.parts, "same, slower, stalls, sample, gate, minorities; all by default")
      ->check(CLI::IsMember({"same", "slower", "stalls", "sample", "gate", "minorities"}));
  line.add("--windows", options.windows, "Windows of each kind", 1, 100'000);
  line.add("--minutes", options.minutes, "Lengths of the windows; a shorter one is the beginning of the longest", 10.0,
           1000.0);
  line.add("--drift", options.drifts, "Seconds in which a GPU's speed drifts; gate and minorities take 0 as no drift",
           0.0, 1e6);
  line.add("--load", options.load, "Share of what one engine can do", 0.01, 2.0);
  line.add("--step", options.step, "How long the slower candidate's steps are, beside the primary's", 0.1, 10.0);
  line.add("--truth-arrivals", options.truth_arrivals, "So many arrivals of which the truth is found", 1, 100'000);
  line.add("--truth-runs", options.truth_runs, "Runs that give the truth of one window", 1, 100'000);
  return line.run(argc, argv, [&] { run(options); });
}

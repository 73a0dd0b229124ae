// A run of twins in simulated time: what weir's request log says of it, its arrivals as a trace that
// `weir-lab load --trace` plays, and the truth of its window. The live bench of twins and the demo use it.
//
// A primary has two twins: one of its own configuration, and a candidate whose steps take longer. Every answer is as
// long as the trace says, on all three. Real are the engine model, and the writer of the log. The request log that it
// writes has no gaps between tokens, and no time in weir.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>

#include "lab/sim/answer.hpp"
#include "metrics/moment.hpp"
#include "metrics/record/request_log.hpp"
#include "tests/bench/command_line.hpp"
#include "tests/bench/twin_simulation.hpp"

namespace {

using namespace weir;
using namespace weir::bench;
using metrics::compare::statistics::Figure;
using metrics::record::RequestRecord;

struct Options {
  std::string trace, log, arrivals;
  double minutes = 30, load = 0.6, step = 1.1;
  Drift drift{.sd = 0, .time_s = 60};
  std::uint64_t seed = 1;
  std::size_t truth_runs = 0;
};

/// The name of a side, and how long its steps are.
struct Side {
  const char* replica;
  const char* config;
  const char* shadow;  ///< "" for the primary.
  bool slower;
};
constexpr Side sides[] = {
    {"gpu0", "sim", "", false}, {"gpu1", "sim", "same", false}, {"gpu2", "sim-slower", "slower", true}};

class Run {
 public:
  explicit Run(const Options& wanted) : options(wanted) {
    const auto trace = read_trace_file(options.trace);
    rate = options.load * capacity_of(EngineSettings{}, trace);
    arrivals = arrivals_of(trace, rate, 60 * options.minutes, options.seed);
    for (auto& one : arrivals) lengths_.push_back(one.output_tokens);
  }

  std::vector<Answer> answers_of(bool slower, std::uint64_t seed) const {
    auto with_template = arrivals;
    for (auto& one : with_template) one.prompt_tokens += lab::sim::tokens_per_chat + lab::sim::tokens_per_message;
    Engine engine;
    if (slower) engine.step = options.step;
    return serve(engine, options.drift, lengths_, with_template, seed);
  }

  const Options& options;
  double rate = 0;
  std::vector<Arrival> arrivals;

 private:
  std::vector<std::uint64_t> lengths_;
};

std::string id_of(std::size_t side, std::size_t request) {
  char text[40];
  std::snprintf(text, sizeof text, "%016zx%016zx", side + 1, request + 1);
  return text;
}

RequestRecord record_of(std::size_t of, std::size_t request, const Arrival& arrival, const Answer& answer) {
  constexpr std::chrono::sys_days begin{std::chrono::year{2026} / 11 / 21};
  const auto moment = [&](double seconds) {
    return metrics::Moment(metrics::ticks(std::chrono::duration<double>(seconds)));
  };
  const Side& side = sides[of];
  RequestRecord record;
  record.time = begin + std::chrono::duration_cast<std::chrono::system_clock::duration>(
                            std::chrono::duration<double>(arrival.at));
  record.id = id_of(of, request);
  record.pool = *side.shadow == '\0' ? "chat" : "chat:shadow";
  record.replica = side.replica;
  record.config = side.config;
  if (*side.shadow != '\0') {
    record.role = metrics::Role::shadow;
    auto& mirrored = record.mirrored.make();
    mirrored.pair = id_of(0, request);
    mirrored.shadow = side.shadow;
    mirrored.joined = true;
  }
  record.facts.api = metrics::Api::openai_chat;
  record.facts.model = "sim-7b";
  record.facts.stream = record.facts.whole_json = true;
  record.facts.max_tokens = answer.output_tokens;
  record.facts.user_messages = 1;
  record.status = 200;
  record.outcome = metrics::Outcome::ok;
  record.attempt = 1;
  record.received = moment(arrival.at);
  record.sent = record.received;
  record.in_flight_at_start = answer.in_flight_at_start;
  record.in_flight_mean = answer.in_flight_mean;
  auto& seen = record.answer;
  seen.first_choice = seen.first_token = seen.first_output = moment(arrival.at + answer.ttft);
  seen.last_choice = seen.end = record.ended = moment(arrival.at + answer.e2e);
  seen.token_source = metrics::TokenSource::usage;
  seen.complete = metrics::Completeness::marker;
  seen.prompt_tokens = arrival.prompt_tokens + lab::sim::tokens_per_chat + lab::sim::tokens_per_message;
  seen.cached_tokens = 0;
  seen.output_tokens = answer.output_tokens;
  seen.first_output_tokens = 1;
  seen.finish_reason = "length";
  return record;
}

void write_log(const Run& run) {
  std::vector<std::vector<Answer>> answers;
  for (std::size_t i = 0; i < std::size(sides); ++i)
    answers.push_back(run.answers_of(sides[i].slower, seed_of(run.options.seed, 100 + i)));
  std::ofstream log(run.options.log);
  for (std::size_t i = 0; i < run.arrivals.size(); ++i) {
    for (std::size_t of = 0; of < std::size(sides); ++of)
      log << metrics::record::log_line(record_of(of, i, run.arrivals[i], answers[of][i]), "simulated") << '\n';
  }
  if (!log.flush()) throw std::runtime_error("cannot write " + run.options.log);
}

void write_arrivals(const Run& run) {
  std::ofstream file(run.options.arrivals);
  file << "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  for (const auto& one : run.arrivals) {
    const auto seconds = static_cast<unsigned>(one.at);
    char time[64];
    std::snprintf(time, sizeof time, "2026-11-21 %02u:%02u:%010.7f", seconds / 3600, seconds / 60 % 60,
                  std::fmod(one.at, 60));
    file << time << ',' << one.prompt_tokens << ',' << one.output_tokens << '\n';
  }
  if (!file.flush()) throw std::runtime_error("cannot write " + run.options.arrivals);
}

/// The mean estimates over other runs of the same arrivals; each a share of the primary's.
struct Truth {
  double ttft = 0, tpot = 0;
};

Truth truth_of(const Run& run, bool slower) {
  Truth sum;
  for (std::size_t i = 0; i < run.options.truth_runs; ++i) {
    const auto a = run.answers_of(false, seed_of(7'000'000 + run.options.seed, 2 * i));
    const auto b = run.answers_of(slower, seed_of(7'000'000 + run.options.seed, 2 * i + 1));
    for (const auto& verdict : twins(run.arrivals, a, b).judge(60 * run.options.minutes).verdicts) {
      if (verdict.figure == Figure::ttft || verdict.figure == Figure::tpot)
        (verdict.figure == Figure::ttft ? sum.ttft : sum.tpot) += std::log1p(verdict.estimate.value());
    }
  }
  const auto runs = static_cast<double>(run.options.truth_runs);
  return {std::expm1(sum.ttft / runs), std::expm1(sum.tpot / runs)};
}

void print(const Run& run) {
  std::printf(R"({"requests":%zu,"rate":%.4f,"load":%g,"minutes":%g,"warm_up_s":%g,"step":%g,"drift_sd":%g)",
              run.arrivals.size(), run.rate, run.options.load, run.options.minutes, warm_s, run.options.step,
              run.options.drift.sd);
  if (run.options.truth_runs > 0) {
    const auto same = truth_of(run, false), slower = truth_of(run, true);
    std::printf(R"(,"truth":{"runs":%zu,"same":{"ttft":%.5f,"tpot":%.5f},"slower":{"ttft":%.5f,"tpot":%.5f}})",
                run.options.truth_runs, same.ttft, same.tpot, slower.ttft, slower.tpot);
  }
  std::printf("}\n");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine line(
      "bench_twin_run",
      "One run of twins in simulated time: a primary, a twin of its own configuration, and one with longer steps",
      options.trace);
  line.add_option("--log", options.log, "Write the request log of the run to this file");
  line.add_option("--arrivals", options.arrivals, "Write its arrivals to this file, for weir-lab load --trace");
  line.add("--truth-runs", options.truth_runs, "So many other runs of the arrivals give the truth; 0 = none", 0,
           10'000);
  line.add("--minutes", options.minutes, "Length of the window, behind two minutes of warm-up", 10.0, 1000.0);
  line.add("--load", options.load, "Share of what one engine can do", 0.01, 2.0);
  line.add("--step", options.step, "How long the candidate's steps are, beside the primary's", 0.1, 10.0);
  line.add("--drift-sd", options.drift.sd, "How far the speed of each GPU drifts", 0.0, 0.5);
  line.add("--drift", options.drift.time_s, "Seconds in which it does", 1.0, 1e6);
  line.add("--seed", options.seed, "Arrivals, jitter and drift follow from it");
  return line.run(argc, argv, [&] {
    const Run run(options);
    if (!options.log.empty()) write_log(run);
    if (!options.arrivals.empty()) write_arrivals(run);
    print(run);
  });
}

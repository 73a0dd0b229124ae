// Two weirs before the same four engine models, in simulated time: does it help a weir to know, from the engines' own
// figures, what the other one has sent? Prints the table of tests/bench/results/two_weirs.txt.
//
// The ledger, the score and the engines are weir's own. Each weir sees half of the requests (drawn at random) and keeps
// its own ledger; prompts are known exactly, so that nothing but the other weir's load is missing. The engines' figures
// are as old as a reading makes them, and a weir compares them with its own ledger at the moment of that reading.
#include <cstdio>
#include <deque>

#include "balancer/policy/least_queued_tokens.hpp"
#include "balancer/token_ledger.hpp"
#include "lab/engine/random.hpp"
#include "lab/plan/simulation.hpp"
#include "tests/bench/command_line.hpp"

namespace {

using namespace weir;
using balancer::Moment;
using balancer::ReplicaView;
using balancer::TokenLedger;
using balancer::Tokens;
using lab::load::TraceEntry;

constexpr std::size_t replicas = 4;
using lab::plan::never;

struct Options {
  std::string trace;
  std::size_t requests = 4000;
  std::uint64_t seeds = 9;
  std::vector<double> loads{0.5, 0.7, 0.85};
  double first_share = 0.5;
  double slow_speed = 1;
};

/// The use that a weir makes of an engine's figures.
enum class Foreign {
  ignored,
  all_as_prompts,      ///< (running + waiting - ours) x mean prompt.
  waiting_as_prompts,  ///< (waiting - ours without a first token) x mean prompt.
  all_as_output,       ///< (running + waiting - ours) x mean output, as output still to come.
  known,               ///< A ledger for both: no figure can be better.
};

struct Way {
  const char* name;
  Foreign foreign = Foreign::ignored;
  double age = 0;     ///< A figure is so old.
  double period = 0;  ///< Or it is read so often, and is up to so old.
};
constexpr Way ways[] = {{"ignored"},
                        {"(running + waiting - ours) x mean prompt, fresh", Foreign::all_as_prompts, 0},
                        {"the same, 1 s old", Foreign::all_as_prompts, 1},
                        {"the same, 2 s old", Foreign::all_as_prompts, 2},
                        {"the same, 5 s old", Foreign::all_as_prompts, 5},
                        {"the same, read every 5 s", Foreign::all_as_prompts, 0, 5},
                        {"(waiting - ours waiting) x mean prompt, fresh", Foreign::waiting_as_prompts, 0},
                        {"the same, 1 s old", Foreign::waiting_as_prompts, 1},
                        {"the same, 5 s old", Foreign::waiting_as_prompts, 5},
                        {"the same, read every 5 s", Foreign::waiting_as_prompts, 0, 5},
                        {"(running + waiting - ours) as output, fresh", Foreign::all_as_output, 0},
                        {"the same, 1 s old", Foreign::all_as_output, 1},
                        {"the same, 5 s old", Foreign::all_as_output, 5},
                        {"the same, read every 5 s", Foreign::all_as_output, 0, 5},
                        {"known at once (one weir)", Foreign::known}};

/// A count over time.
class History {
 public:
  void add(double at, double change) { steps_.emplace_back(at, steps_.back().second + change); }
  double at(double time) const {
    const auto after = std::ranges::upper_bound(steps_, time, {}, &std::pair<double, double>::first);
    return std::prev(after)->second;
  }

 private:
  std::vector<std::pair<double, double>> steps_{{-never, 0}};
};

/// As an engine counts its requests.
struct EngineFigures {
  History requests, unanswered;
};

struct Weir {
  std::deque<TokenLedger> ledgers;
  std::vector<History> requests, unanswered;
};

class Simulation {
 public:
  Simulation(const Options& options, const Way& way, std::span<const TraceEntry> requests, std::uint64_t seed)
      : way_(way), requests_(requests), random_(seed), placed_(requests.size()), choice_(seed) {
    for (const auto& settings : lab::plan::four_engines(options.slow_speed)) {
      line_.engines.emplace_back(settings, seed * 101 + speeds_.size());
      speeds_.push_back(settings.speed);
    }
    engines_.resize(replicas);
    const std::size_t weirs = way.foreign == Foreign::known ? 1 : 2;
    for (std::size_t w = 0; w < weirs; ++w) {
      auto& weir = weirs_.emplace_back();
      weir.requests.resize(replicas);
      weir.unanswered.resize(replicas);
      for (std::size_t r = 0; r < replicas; ++r) {
        weir.ledgers.emplace_back(moment(0));
        phases_.push_back(random_.uniform() * 5);
      }
    }
    for (const auto& request : requests) {
      mean_prompt_ += static_cast<double>(request.prompt_tokens) / static_cast<double>(requests.size());
      mean_output_ += static_cast<double>(request.output_tokens) / static_cast<double>(requests.size());
    }
    first_share_ = options.first_share;
  }

  /// Returns the times to first token, after the first twentieth of the requests.
  std::vector<double> serve(double faster) {
    std::vector<double> ttft;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      const double at = (requests_[i].at - requests_.front().at) / faster;
      work_until(at);
      arrive(i);
    }
    work_until(never);
    for (std::size_t i = requests_.size() / 20; i < requests_.size(); ++i) ttft.push_back(placed_[i].ttft);
    return ttft;
  }

 private:
  struct Placed {
    std::size_t weir = 0, replica = 0;
    double arrived = 0, ttft = 0;
    Tokens output_left = 0, streamed = 0;
  };

  static Moment moment(double seconds) { return Moment{} + std::chrono::nanoseconds(std::llround(seconds * 1e9)); }

  void work_until(double time) {
    line_.run_until(time, [this](std::size_t, const lab::engine::TokenEvent& event) { token(event); });
  }

  ReplicaView view_of(std::size_t w, std::size_t r) {
    auto& weir = weirs_[w];
    auto& ledger = weir.ledgers[r];
    ledger.advance(moment(line_.now()));
    ReplicaView view;
    view.index = static_cast<balancer::ReplicaIndex>(r);
    const lab::engine::EngineSettings engine;
    const auto seconds = [&](lab::engine::nanoseconds time) {
      return std::chrono::duration<double>(time).count() / speeds_[r];
    };
    view.time = {seconds(engine.step_base), seconds(engine.per_decode_sequence), seconds(engine.per_kv_token),
                 seconds(engine.per_prefill_token)};
    view.pending = ledger.pending();
    view.streaming = ledger.streaming();
    view.resident = ledger.resident();
    view.worked_seconds = ledger.worked_seconds();
    view.prefill_left = ledger.prefill_left();
    view.decode_left = ledger.decode_left();
    view.in_flight = ledger.in_flight();
    double read = line_.now() - way_.age;
    const double phase = phases_[w * replicas + r];
    if (way_.period > 0) read = std::floor((line_.now() - phase) / way_.period) * way_.period + phase;
    const double all = std::max(0.0, engines_[r].requests.at(read) - weir.requests[r].at(read));
    const double waiting = std::max(0.0, engines_[r].unanswered.at(read) - weir.unanswered[r].at(read));
    if (way_.foreign == Foreign::all_as_prompts) view.prefill_left += static_cast<Tokens>(all * mean_prompt_);
    if (way_.foreign == Foreign::waiting_as_prompts) view.prefill_left += static_cast<Tokens>(waiting * mean_prompt_);
    if (way_.foreign == Foreign::all_as_output) view.decode_left += static_cast<Tokens>(all * mean_output_);
    return view;
  }

  void arrive(std::size_t i) {
    auto& placed = placed_[i];
    const bool first = random_.uniform() < first_share_;
    placed.weir = weirs_.size() == 1 || first ? 0 : 1;
    placed.arrived = line_.now();
    std::vector<ReplicaView> views;
    for (std::size_t r = 0; r < replicas; ++r) views.push_back(view_of(placed.weir, r));
    const auto& request = requests_[i];
    placed.output_left = static_cast<Tokens>(mean_output_);
    const balancer::policy::Job job{request.prompt_tokens, placed.output_left};
    placed.replica = views[policy_.choose(job, views, choice_)].index;
    auto& weir = weirs_[placed.weir];
    auto& engine = engines_[placed.replica];
    weir.ledgers[placed.replica].open(i, {request.prompt_tokens, placed.output_left, true}, moment(line_.now()));
    for (auto* history :
         {&weir.requests[placed.replica], &weir.unanswered[placed.replica], &engine.requests, &engine.unanswered})
      history->add(line_.now(), 1);
    line_.engines[placed.replica].submit({i, request.prompt_tokens, request.output_tokens}, line_.now());
  }

  void token(const lab::engine::TokenEvent& event) {
    auto& placed = placed_[event.id];
    auto& weir = weirs_[placed.weir];
    auto& ledger = weir.ledgers[placed.replica];
    if (event.index == 1) {
      placed.ttft = line_.now() - placed.arrived;
      static_cast<void>(ledger.first_token(event.id, moment(line_.now())));
      weir.unanswered[placed.replica].add(line_.now(), -1);
      engines_[placed.replica].unanswered.add(line_.now(), -1);
    }
    const Tokens expected = std::min<Tokens>(1, placed.output_left);
    ledger.streamed().stream(expected, 1);
    placed.output_left -= expected;
    ++placed.streamed;
    if (!event.last) return;
    ledger.close(event.id, true, placed.output_left, placed.streamed, moment(line_.now()));
    weir.requests[placed.replica].add(line_.now(), -1);
    engines_[placed.replica].requests.add(line_.now(), -1);
  }

  Way way_;
  std::span<const TraceEntry> requests_;
  lab::engine::Random random_;
  lab::plan::Timeline line_;
  std::vector<EngineFigures> engines_;
  std::vector<double> speeds_, phases_;
  std::deque<Weir> weirs_;
  std::vector<Placed> placed_;
  balancer::policy::LeastQueuedTokens policy_;
  balancer::policy::Random choice_;
  double mean_prompt_ = 0, mean_output_ = 0, first_share_ = 0.5;
};

double quantile(std::vector<double> values, double q) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

/// Returns the requests per second that the engines answer while requests are always waiting.
double capacity_of(const Options& options, std::span<const TraceEntry> requests) {
  double sum = 0;
  for (const auto& settings : lab::plan::four_engines(options.slow_speed)) {
    lab::engine::EngineModel engine(settings, 1);
    for (std::size_t i = 0; i < requests.size(); ++i)
      engine.submit({i, requests[i].prompt_tokens, requests[i].output_tokens});
    double now = 0;
    std::size_t done = 0;
    while (const auto took = engine.begin_step()) {
      now += std::chrono::duration<double>(*took).count();
      for (const auto& event : engine.end_step()) done += event.last ? 1 : 0;
      if (done >= requests.size() * 9 / 10) break;
    }
    sum += static_cast<double>(done) / now;
  }
  return sum;
}

void run(const Options& options) {
  const auto trace = lab::plan::read_trace_file(options.trace);
  std::vector<std::vector<TraceEntry>> parts;
  std::vector<double> faster;  // At load 1.
  for (std::uint64_t seed = 1; seed <= options.seeds; ++seed) {
    const auto& part =
        parts.emplace_back(lab::plan::part_of(trace, options.requests, lab::engine::Random(seed).below(trace.size())));
    const double rate = static_cast<double>(part.size() - 1) / (part.back().at - part.front().at);
    faster.push_back(capacity_of(options, part) / rate);
  }
  std::printf("%zu requests a run, %zu runs; medians over the runs. One weir of two sees %.0f %% of the requests.\n",
              options.requests, parts.size(), 100 * options.first_share);
  for (const double load : options.loads) {
    std::printf(
        "\nLoad %.2f\n\n| what others have sent | TTFT p50 s | p90 s | p99 s | p99 beside ignored, by run |\n"
        "|---|---:|---:|---:|---:|\n",
        load);
    std::vector<double> ignored;
    for (const Way& way : ways) {
      std::vector<double> p50, p90, p99, ratio;
      for (std::size_t s = 0; s < parts.size(); ++s) {
        const auto ttft = Simulation(options, way, parts[s], s + 1).serve(load * faster[s]);
        p50.push_back(quantile(ttft, 0.50));
        p90.push_back(quantile(ttft, 0.90));
        p99.push_back(quantile(ttft, 0.99));
        if (way.foreign == Foreign::ignored) ignored.push_back(p99.back());
        ratio.push_back(p99.back() / ignored[s]);
      }
      std::printf("| %s | %.3f | %.3f | %.3f | %.2f (%.2f to %.2f) |\n", way.name, quantile(p50, 0.5),
                  quantile(p90, 0.5), quantile(p99, 0.5), quantile(ratio, 0.5), std::ranges::min(ratio),
                  std::ranges::max(ratio));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  bench::CommandLine line("bench_two_weirs", "Two weirs before four engines in simulated time", options.trace);
  line.add("--requests", options.requests, "Requests a run; the trace is repeated as needed", 100, 10'000'000);
  line.add("--seeds", options.seeds, "Runs for each way and load", 1, 1000);
  line.add("--load", options.loads, "Shares of what the engines can do together", 0.01, 10.0);
  line.add("--first-share", options.first_share, "Share of the requests that the first weir sees", 0.0, 1.0);
  line.add("--slow-speed", options.slow_speed, "Speed of the fourth engine, which both weirs know", 0.01, 100.0);
  return line.run(argc, argv, [&] { run(options); });
}

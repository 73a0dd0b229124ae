// Two engine models get the same requests at the same time, as a primary and its twin do, in simulated time. What they
// answer becomes samples, as the requests of a running weir do, and these are what metrics::compare judges.
//
// Real are the comparison and the engine models that `weir-lab sim` runs. Simulated are time, the arrivals' scale, and
// what makes two runs differ: each side draws the length of every answer anew from all of the trace's, each engine has
// step times with jitter of their own, and the speed of each GPU drifts. weir's own I/O is left out.
//
// A run is deterministic by seed. The engines begin empty and keep no prefix cache, so after two minutes their batch is
// as full as it stays: no pair counts before (the live program waits for ten).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include "lab/engine/engine_model.hpp"
#include "lab/engine/random.hpp"
#include "lab/load/trace.hpp"
#include "metrics/compare/comparison.hpp"

namespace weir::bench {

namespace compare = metrics::compare;
using lab::engine::EngineSettings;
using lab::engine::Random;
using lab::load::TraceEntry;

inline constexpr double warm_s = 120;
/// Requests go on for so long after the window, so that its last ones run under load as well.
inline constexpr double beyond_s = 60;

/// Returns a seed for one of a run's sources of chance.
inline std::uint64_t seed_of(std::uint64_t run, std::uint64_t source) {
  return Random(Random(run).next() + source).next();
}

struct Arrival {
  double at = 0;  ///< It is in seconds since the run began.
  std::uint64_t prompt_tokens = 1;
};

/// Returns the requests per second that an engine answers while requests are always waiting: of all of the trace, from
/// the first tenth to the last.
inline double capacity_of(const EngineSettings& settings, std::span<const TraceEntry> trace) {
  lab::engine::EngineModel engine(settings, 1);
  for (std::size_t i = 0; i < trace.size(); ++i) {
    engine.submit({i, trace[i].prompt_tokens, trace[i].output_tokens});
  }
  const std::size_t tenth = trace.size() / 10;
  double now = 0, begun = 0;
  std::size_t done = 0;
  while (const auto took = engine.begin_step()) {
    now += std::chrono::duration<double>(*took).count();
    for (const lab::engine::TokenEvent& event : engine.end_step()) done += event.last ? 1 : 0;
    if (done < tenth) begun = now;
    if (done >= trace.size() - tenth) break;
  }
  return static_cast<double>(trace.size() - 2 * tenth) / (now - begun);
}

/// Returns arrivals at `rate` a second that last as long as a window of that length takes. They begin at an entry of
/// the trace that the seed chooses, and go on at its start when it ends.
inline std::vector<Arrival> arrivals_of(std::span<const TraceEntry> trace, double rate, double window_s,
                                        std::uint64_t seed) {
  const double lasting = warm_s + window_s + beyond_s;
  const auto count = static_cast<std::size_t>(rate * lasting) + 1;
  const std::size_t first = Random(seed).below(trace.size());
  const double turn = trace.back().at * static_cast<double>(trace.size()) / static_cast<double>(trace.size() - 1);
  std::vector<Arrival> arrivals(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t place = first + i;
    const TraceEntry& entry = trace[place % trace.size()];
    arrivals[i] = {turn * static_cast<double>(place / trace.size()) + entry.at - trace[first].at, entry.prompt_tokens};
  }
  const double scale = lasting / arrivals.back().at;
  for (Arrival& arrival : arrivals) arrival.at *= scale;
  return arrivals;
}

/// Draws each answer's length from all of the trace's.
inline std::vector<std::uint64_t> lengths_of(std::span<const TraceEntry> trace, std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::uint64_t> lengths(count);
  for (std::uint64_t& length : lengths) length = trace[random.below(trace.size())].output_tokens;
  return lengths;
}

/// How a GPU's speed drifts: an Ornstein-Uhlenbeck process around 1. It is constant for a second at a time.
struct Drift {
  double sd = 0.02;
  double time_s = 60;  ///< After that long, 1/e of a deviation is left.
};

class Speed {
 public:
  Speed(const Drift& drift, std::uint64_t seed)
      : random_(seed),
        kept_(std::exp(-1 / drift.time_s)),
        added_(drift.sd * std::sqrt(1 - kept_ * kept_)),
        deviation_(drift.sd * random_.normal()) {}

  /// `now` is not before that of the last call.
  double at(double now) {
    for (; now >= next_; ++next_) deviation_ = kept_ * deviation_ + added_ * random_.normal();
    return 1 + deviation_;
  }

 private:
  Random random_;
  double kept_, added_, deviation_, next_ = 1;
};

/// A replica's configuration, so far as it changes how long a step takes.
struct Engine {
  EngineSettings settings{};
  double step = 1;   ///< Every step takes so many times as long.
  double stall = 1;  ///< One step in `stall_every` takes so many times as long, drawn by the seed.
  std::uint64_t stall_every = 20;
};

struct Answer {
  double ttft = 0, tpot = 0, e2e = 0;  ///< They are in seconds.
  std::uint64_t output_tokens = 0;
  std::uint32_t in_flight_at_start = 0;
  double in_flight_mean = 0;
};

/// One engine. Sequences are numbered as the answers, which it fills in.
class Replica {
 public:
  Replica(const Engine& engine, const Drift& drift, std::uint64_t seed, std::span<Answer> answers)
      : model_(engine.settings, seed_of(seed, 1)),
        speed_(drift, seed_of(seed, 2)),
        stalls_(seed_of(seed, 3)),
        engine_(engine),
        answers_(answers),
        arrived_(answers.size()) {}

  std::uint32_t in_flight() const { return in_flight_; }

  void work_until(double time) {
    while (step_ends_ <= time && step_ends_ < never) {
      now_ = step_ends_;
      for (const lab::engine::TokenEvent& event : model_.end_step()) token(event);
      begin_step();
    }
  }
  /// Answers everything that was submitted.
  void finish() { work_until(std::numeric_limits<double>::max()); }

  void submit(std::size_t i, std::uint64_t prompt_tokens, std::uint64_t output_tokens, double now) {
    work_until(now);
    now_ = now;
    if (!model_.submit({i, prompt_tokens, output_tokens}))
      throw std::runtime_error("a request of the trace does not fit into the engine");
    Answer& answer = answers_[i];
    arrived_[i] = now;
    answer.output_tokens = output_tokens;
    answer.in_flight_at_start = in_flight_;
    count(1);
    answer.in_flight_mean = -in_flight_time_;  // What lies before its arrival is not its own.
    if (step_ends_ == never) begin_step();
  }

 private:
  static constexpr double never = std::numeric_limits<double>::infinity();

  void count(int change) {
    in_flight_time_ += (now_ - counted_) * in_flight_;
    counted_ = now_;
    in_flight_ = static_cast<std::uint32_t>(static_cast<int>(in_flight_) + change);
  }

  void begin_step() {
    const auto took = model_.begin_step();
    step_ends_ = never;
    if (!took) return;
    double factor = engine_.step / speed_.at(now_);
    if (engine_.stall != 1 && stalls_.below(engine_.stall_every) == 0) factor *= engine_.stall;
    step_ends_ = now_ + std::chrono::duration<double>(*took).count() * factor;
  }

  void token(const lab::engine::TokenEvent& event) {
    if (event.index != 1 && !event.last) return;
    Answer& answer = answers_[event.id];
    const double since = now_ - arrived_[event.id];
    if (event.index == 1) answer.ttft = since;
    if (!event.last) return;
    answer.e2e = since;
    if (event.index > 1) answer.tpot = (since - answer.ttft) / static_cast<double>(event.index - 1);
    count(-1);
    answer.in_flight_mean = (answer.in_flight_mean + in_flight_time_) / std::max(since, 1e-9);
  }

  lab::engine::EngineModel model_;
  Speed speed_;
  Random stalls_;
  Engine engine_;
  std::span<Answer> answers_;
  std::vector<double> arrived_;
  double now_ = 0, step_ends_ = never;
  std::uint32_t in_flight_ = 0;
  double in_flight_time_ = 0, counted_ = 0;
};

/// Returns the answers of one engine that gets all of the arrivals.
inline std::vector<Answer> serve(const Engine& engine, const Drift& drift, std::span<const TraceEntry> trace,
                                 std::span<const Arrival> arrivals, std::uint64_t seed) {
  std::vector<Answer> answers(arrivals.size());
  const std::vector<std::uint64_t> lengths = lengths_of(trace, arrivals.size(), seed_of(seed, 4));
  Replica replica(engine, drift, seed, answers);
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    replica.submit(i, arrivals[i].prompt_tokens, lengths[i], arrivals[i].at);
  }
  replica.finish();
  return answers;
}

/// The requests of a comparison, as weir has them.
class Samples {
 public:
  Samples() {
    options.a = {compare::By::config, names.of("primary")};
    options.b = {compare::By::config, names.of("candidate")};
    options.warm_up.seconds = warm_s;
    options.slo = config::Slo{.name = "chat",
                              .pool = "chat",
                              .ttft_client = config::Seconds(1.0),
                              .ttft = {},
                              .tpot = config::Seconds(0.05),
                              .e2e = {}};
  }

  void primary(std::size_t i, const Arrival& arrival, const Answer& answer, std::string_view replica) {
    add(i, arrival, answer, replica, "primary");
  }

  void shadow(std::size_t i, const Arrival& arrival, const Answer& answer) {
    compare::Sample& sample = add(i, arrival, answer, "gpu-candidate", "candidate");
    sample.pair = sample.id;
    sample.id[0] = 2;
    sample.role = metrics::Role::shadow;
    sample.shadow = names.of("candidate");
  }

  /// Compares a window of that length, the first after the warm-up.
  compare::Comparison judge(double window_s) {
    options.from_us = begin_us + static_cast<std::int64_t>(warm_s * 1e6);
    options.length_us = static_cast<std::int64_t>(window_s * 1e6);
    return compare::compare(samples_, names, options);
  }

  compare::Names names;
  compare::Options options;

 private:
  static constexpr std::int64_t begin_us = 1'795'219'200'000'000;

  compare::Sample& add(std::size_t i, const Arrival& arrival, const Answer& answer, std::string_view replica,
                       std::string_view config) {
    compare::Sample& sample = samples_.emplace_back();
    sample.received_us = sample.dispatched_us = begin_us + static_cast<std::int64_t>(arrival.at * 1e6);
    sample.id = {1, i + 1};
    sample.pool = names.of("chat");
    sample.replica = names.of(replica);
    sample.config = names.of(config);
    sample.api = metrics::Api::openai_chat;
    sample.stream = sample.served = true;
    sample.status = 200;
    sample.prompt_tokens = static_cast<std::uint32_t>(arrival.prompt_tokens);
    sample.cached_tokens = 0;
    sample.output_tokens = static_cast<std::uint32_t>(answer.output_tokens);
    sample.ttft = sample.ttft_client = static_cast<float>(answer.ttft);
    if (answer.output_tokens > 1) sample.tpot = static_cast<float>(answer.tpot);
    sample.e2e = sample.lasted = static_cast<float>(answer.e2e);
    sample.in_flight_at_start = answer.in_flight_at_start;
    sample.in_flight_mean = static_cast<float>(answer.in_flight_mean);
    return sample;
  }

  std::vector<compare::Sample> samples_;
};

/// Returns the samples of a primary and its twin.
inline Samples twins(std::span<const Arrival> arrivals, std::span<const Answer> primary,
                     std::span<const Answer> candidate) {
  Samples samples;
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    samples.primary(i, arrivals[i], primary[i], "gpu-primary");
    samples.shadow(i, arrivals[i], candidate[i]);
  }
  return samples;
}

struct Sampled {
  Samples all;       ///< All requests of the primaries, and those of the shadow.
  Samples mirrored;  ///< The requests that the shadow got as well, alone.
};

/// Four primaries share the arrivals, each of which goes to the one with the fewest requests in flight; a shadow of the
/// same configuration gets one in ten of them, drawn by the seed.
inline Sampled sampled(const Engine& engine, const Drift& drift, std::span<const TraceEntry> trace,
                       std::span<const Arrival> arrivals, std::uint64_t seed) {
  constexpr std::array<std::string_view, 4> replicas{"gpu0", "gpu1", "gpu2", "gpu3"};
  std::vector<Answer> answers(arrivals.size()), shadowed(arrivals.size());
  std::vector<Replica> primaries;
  for (std::size_t r = 0; r < replicas.size(); ++r)
    primaries.emplace_back(engine, drift, seed_of(seed, 10 + r), answers);
  Replica shadow(engine, drift, seed_of(seed, 20), shadowed);
  const auto lengths = lengths_of(trace, arrivals.size(), seed_of(seed, 4));
  const auto lengths_of_shadow = lengths_of(trace, arrivals.size(), seed_of(seed, 5));
  Random share(seed_of(seed, 6));
  std::vector<std::size_t> placed(arrivals.size());
  std::vector<bool> mirrored(arrivals.size());
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    const double now = arrivals[i].at;
    for (Replica& primary : primaries) primary.work_until(now);
    const auto least = std::ranges::min_element(primaries, {}, &Replica::in_flight);
    placed[i] = static_cast<std::size_t>(least - primaries.begin());
    least->submit(i, arrivals[i].prompt_tokens, lengths[i], now);
    mirrored[i] = share.below(10) == 0;
    if (mirrored[i]) shadow.submit(i, arrivals[i].prompt_tokens, lengths_of_shadow[i], now);
  }
  for (Replica& primary : primaries) primary.finish();
  shadow.finish();
  Sampled samples;
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    for (Samples* of : {&samples.all, &samples.mirrored}) {
      if (of == &samples.all || mirrored[i]) of->primary(i, arrivals[i], answers[i], replicas[placed[i]]);
      if (mirrored[i]) of->shadow(i, arrivals[i], shadowed[i]);
    }
  }
  return samples;
}

inline double median_tpot(std::span<const Answer> answers) {
  std::vector<double> values;
  for (const Answer& answer : answers) {
    if (answer.output_tokens > 1) values.push_back(answer.tpot);
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Returns the engine with all of its steps so much shorter that its median TPOT is that of one without stalls. How
/// much is found by halving, without drift.
inline Engine with_usual_tpot(Engine stalling, std::span<const TraceEntry> trace, std::span<const Arrival> arrivals,
                              std::uint64_t seed) {
  const Drift none{0, 60};
  const double wanted = median_tpot(serve(Engine{}, none, trace, arrivals, seed));
  double low = 0.5, high = 1;
  for (int i = 0; i < 12; ++i) {
    stalling.step = (low + high) / 2;
    const double median = median_tpot(serve(stalling, none, trace, arrivals, seed));
    (median > wanted ? high : low) = stalling.step;
  }
  return stalling;
}

}  // namespace weir::bench

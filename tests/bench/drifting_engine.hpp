// An engine on a GPU whose speed drifts, in simulated time: what it answers to arrivals, and how many it had in flight.
//
// The engine model is that of `weir-lab sim`. Every source of chance (jitter, drift, stalls, lengths) has a seed
// of its own, so that a run is deterministic. An hour at load 0.6 takes about 30 ms (-O2).
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include "lab/engine/engine_model.hpp"
#include "lab/engine/words.hpp"
#include "lab/plan/traffic.hpp"

namespace weir::bench {

using lab::engine::EngineSettings;
using lab::engine::Random;
using lab::plan::capacity_of;
using lab::plan::never;
using lab::plan::part_of;
using lab::plan::read_trace_file;
using lab::plan::TraceEntry;

/// Returns a seed for one of a run's sources of chance.
inline std::uint64_t seed_of(std::uint64_t run, std::uint64_t source) {
  return Random(Random(run).next() + source).next();
}

struct Arrival {
  double at = 0;  ///< Seconds since the run began.
  std::uint64_t prompt_tokens = 1, output_tokens = 1;
};

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
  double stall = 1;  ///< A step in `stall_every` takes so many times as long, drawn by the seed.
  std::uint64_t stall_every = 20;
};

struct Answer {
  double ttft = 0, tpot = 0, e2e = 0;  ///< Seconds.
  std::uint64_t output_tokens = 0;
  std::uint32_t in_flight_at_start = 0;
  double in_flight_mean = 0;
};

/// An engine. Sequences are numbered as the answers, which it fills in.
class Replica {
 public:
  Replica(const Engine& engine, const Drift& drift, std::uint64_t seed, std::span<Answer> answers)
      : engine_(engine.settings, seed_of(seed, 1), pace_of(engine, drift, seed)),
        answers_(answers),
        arrived_(answers.size()) {}

  std::uint32_t in_flight() const { return in_flight_; }

  void work_until(double time) {
    while (engine_.step_ends() <= time && engine_.step_ends() < never) {
      now_ = engine_.step_ends();
      for (const lab::engine::TokenEvent& event : engine_.end_step()) token(event);
      engine_.begin_step(now_);
    }
  }
  /// Answers everything that was submitted.
  void finish() { work_until(std::numeric_limits<double>::max()); }

  void submit(std::size_t i, std::uint64_t prompt_tokens, std::uint64_t output_tokens, double now) {
    work_until(now);
    now_ = now;
    Answer& answer = answers_[i];
    arrived_[i] = now;
    answer.output_tokens = output_tokens;
    answer.in_flight_at_start = in_flight_;
    count(1);
    answer.in_flight_mean = -in_flight_time_;  // The time before its arrival is not its own.
    engine_.submit({i, prompt_tokens, output_tokens}, now);
  }

 private:
  static lab::plan::TimedEngine::Pace pace_of(const Engine& engine, const Drift& drift, std::uint64_t seed) {
    return [engine, speed = Speed(drift, seed_of(seed, 2)), stalls = Random(seed_of(seed, 3))](double now) mutable {
      const double factor = engine.step / speed.at(now);
      return engine.stall != 1 && stalls.below(engine.stall_every) == 0 ? factor * engine.stall : factor;
    };
  }

  void count(int change) {
    in_flight_time_ += (now_ - counted_) * in_flight_;
    counted_ = now_;
    in_flight_ = static_cast<std::uint32_t>(static_cast<int>(in_flight_) + change);
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

  lab::plan::TimedEngine engine_;
  std::span<Answer> answers_;
  std::vector<double> arrived_;
  double now_ = 0;
  std::uint32_t in_flight_ = 0;
  double in_flight_time_ = 0, counted_ = 0;
};

/// Returns the answers of one engine that gets all of the arrivals, with answers of these lengths.
inline std::vector<Answer> serve(const Engine& engine, const Drift& drift, std::span<const std::uint64_t> lengths,
                                 std::span<const Arrival> arrivals, std::uint64_t seed) {
  std::vector<Answer> answers(arrivals.size());
  Replica replica(engine, drift, seed, answers);
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    replica.submit(i, arrivals[i].prompt_tokens, lengths[i], arrivals[i].at);
  }
  replica.finish();
  return answers;
}

/// The same with lengths that are drawn anew.
inline std::vector<Answer> serve(const Engine& engine, const Drift& drift, std::span<const TraceEntry> trace,
                                 std::span<const Arrival> arrivals, std::uint64_t seed) {
  return serve(engine, drift, lengths_of(trace, arrivals.size(), seed_of(seed, 4)), arrivals, seed);
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

// Engine models that work in simulated time beside each other, and what else is to happen at some moment. Times are in
// seconds. A run is deterministic by the engines' seeds.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "lab/engine/engine_model.hpp"

namespace weir::lab::plan {

inline constexpr double never = std::numeric_limits<double>::infinity();

/// An engine model whose steps begin and end in simulated time.
class TimedEngine {
 public:
  /// The factor on the duration of a step that begins at `now`.
  using Pace = std::function<double(double now)>;

  TimedEngine(const engine::EngineSettings& settings, std::uint64_t seed, Pace pace = {})
      : model_(settings, seed), pace_(std::move(pace)) {}

  double step_ends() const { return step_ends_; }
  /// Throws std::runtime_error if the sequence could never fit.
  void submit(const engine::Sequence& sequence, double now) {
    if (!model_.submit(sequence)) throw std::runtime_error("a request of the trace does not fit into the engine");
    if (step_ends_ == never) begin_step(now);
  }
  void abort(engine::SequenceId id) { model_.abort(id); }
  std::span<const engine::TokenEvent> end_step() { return model_.end_step(); }
  void begin_step(double now) {
    step_ends_ = never;
    if (stands_still_) return;
    const auto took = model_.begin_step();
    prefilled_ += model_.last_step_prefill_tokens();
    if (took) step_ends_ = next_step_at(now) + std::chrono::duration<double>(*took).count() * pace(now);
  }
  /// The engine hangs: what it has stays, and nothing comes of it.
  void stand_still() {
    stands_still_ = true;
    step_ends_ = never;
  }
  /// The engine does nothing for so many seconds. Its step goes on behind them.
  void stall(double now, double seconds) {
    stalls_until_ = std::max(now, stalls_until_) + seconds;
    step_ends_ += seconds;
  }
  void set_pace(Pace pace) { pace_ = std::move(pace); }
  double pace(double now) const { return pace_ ? pace_(now) : 1; }
  void set_prefill_time(engine::nanoseconds per_prefill_token) { model_.set_prefill_time(per_prefill_token); }
  /// Returns when a step may begin that has not begun by now: `never` if the engine hangs.
  double next_step_at(double now) const {
    if (stands_still_) return never;
    return step_ends_ == never ? std::max(now, stalls_until_) : step_ends_;
  }
  void flush() { model_.flush(); }
  const engine::EngineModel& model() const { return model_; }
  /// Returns how many prompt tokens were computed, those of a step that has begun included.
  std::uint64_t prefilled() const { return prefilled_; }

 private:
  engine::EngineModel model_;
  Pace pace_;
  double step_ends_ = never;
  double stalls_until_ = 0;
  std::uint64_t prefilled_ = 0;
  bool stands_still_ = false;
};

/// Engines, and a script of what else happens.
class Timeline {
 public:
  double now() const { return now_; }
  void at(double time, std::function<void()> what) { script_.emplace(time, std::move(what)); }

  /// Runs to this time. `on_token(engine, event)` is called for every token; between two moments `settle()` is called.
  template <class OnToken, class Settle>
  void run_until(double time, OnToken on_token, Settle settle) {
    for (;;) {
      const auto next = std::ranges::min_element(engines, {}, &TimedEngine::step_ends);
      const double step = next == engines.end() ? never : next->step_ends();
      const double scripted = script_.empty() ? never : script_.begin()->first;
      if (const double first = std::min(step, scripted); first > time || first == never) break;
      if (scripted <= step) {
        now_ = scripted;
        const auto what = std::move(script_.begin()->second);
        script_.erase(script_.begin());
        what();
      } else {
        now_ = step;
        const auto engine = static_cast<std::size_t>(next - engines.begin());
        for (const engine::TokenEvent& event : next->end_step()) on_token(engine, event);
        engines[engine].begin_step(now_);
      }
      settle();
    }
    if (time != never) now_ = time;
  }
  template <class OnToken>
  void run_until(double time, OnToken on_token) {
    run_until(time, on_token, [] {});
  }

  std::vector<TimedEngine> engines;

 private:
  std::multimap<double, std::function<void()>> script_;
  double now_ = 0;
};

}  // namespace weir::lab::plan

// Cuts and scales traces for simulations: parts of a trace, requests with bodies that weir reads, what an engine can do
// with them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lab/engine/engine_model.hpp"
#include "lab/load/trace.hpp"
#include "metrics/wire/request/facts.hpp"
#include "metrics/wire/request/prompt_prefix.hpp"

namespace weir::lab::plan {

using load::TraceEntry;

/// Reads a trace whose times can be scaled. Throws an exception with a sentence if it cannot be used.
std::vector<TraceEntry> read_trace_file(const std::string& path);

/// Returns `count` entries of the trace from the entry `first` on, and from its start again at its end. Times grow on.
std::vector<TraceEntry> part_of(std::span<const TraceEntry> trace, std::size_t count, std::size_t first);

/// A request as the replica sees it, and what weir reads of its body.
struct TracedRequest {
  double at = 0;  ///< Seconds, in the trace's own time.
  std::uint64_t prompt_tokens = 1, output_tokens = 1;
  std::shared_ptr<const metrics::wire::RequestFacts> facts;
  std::shared_ptr<const metrics::wire::PromptPrefix> prefix{};  ///< Null where prompts share nothing.
  /// With a parent, which stands before it, a request comes so many seconds after the parent is over, and not at `at`.
  std::optional<std::size_t> parent{};
  double think = 0;
  std::uint64_t session = 0;              ///< Its conversation's number, or its own.
  std::vector<std::uint64_t> blocks{};    ///< The engines' view of prompt and answer: see engine::Sequence.
  std::vector<std::uint64_t> unsalted{};  ///< The same without the salt, if there is one.

  std::span<const std::uint64_t> prompt_blocks() const { return in_prompt(blocks); }
  std::span<const std::uint64_t> text_blocks() const { return in_prompt(unsalted.empty() ? blocks : unsalted); }

 private:
  std::span<const std::uint64_t> in_prompt(std::span<const std::uint64_t> all) const {
    return all.first(std::min<std::size_t>(all.size(), prompt_tokens / engine::block_tokens));
  }
};

/// The default spread (sigma) of the logarithm of a text's length: a median estimate is off by about 10 %.
inline constexpr double usual_text_spread = 0.15;

/// Makes `count` requests from the trace, begun at an entry that the seed chooses (`in_order`: at the first) and from
/// its start again at its end. What the replicas can do depends on the order, so figures of one order say little of
/// another.
///
/// The text in a request's body is a third shorter than its tokens suggest, as with a model with a small vocabulary:
/// the estimator's priors are wrong for it. And the text is uneven, as real text is, by exp(`text_spread` * normal).
/// Every request allows 1,024 tokens of output, so weir is not told how long an answer will be.
std::vector<TracedRequest> requests_of(std::span<const TraceEntry> trace, std::size_t count, std::uint64_t seed,
                                       double text_spread = usual_text_spread, bool in_order = false);

/// Returns the requests per second in the trace's own time. Requests with a parent count with the first of their
/// conversation. Returns 1 where all come at one moment, as in a trace of one conversation: no rate changes that.
double rate_of(std::span<const TracedRequest> requests);

/// Returns the requests per second that an engine answers while requests are always waiting. All are there at the
/// beginning, and the count runs from the first tenth of them to the last.
template <class Requests>
double capacity_of(const engine::EngineSettings& settings, const Requests& requests) {
  engine::EngineModel engine(settings, 1);
  for (std::size_t i = 0; i < requests.size(); ++i)
    engine.submit({i, requests[i].prompt_tokens, requests[i].output_tokens});
  const std::size_t tenth = requests.size() / 10;
  double now = 0, begun = 0;
  std::size_t done = 0;
  while (const auto took = engine.begin_step()) {
    now += std::chrono::duration<double>(*took).count();
    for (const engine::TokenEvent& event : engine.end_step()) done += event.last ? 1 : 0;
    if (done < tenth) begun = now;
    if (done >= requests.size() - tenth) break;
  }
  return static_cast<double>(requests.size() - 2 * tenth) / (now - begun);
}
/// Returns what the engines can do together: the sum of what each can do.
double capacity_of(std::span<const engine::EngineSettings> engines, std::span<const TracedRequest> requests);

// Engine models that work in simulated time beside each other, and what else is to happen at some moment. Times are in
// seconds. A run is deterministic by the engines' seeds.

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
    prefilled_ += model_.last_step().prefill;
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
  /// Calls `what` every `period` seconds from now on.
  void every(double period, const std::function<void()>& what) {
    at(now_ + period, [this, period, what] {
      every(period, what);
      what();
    });
  }

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

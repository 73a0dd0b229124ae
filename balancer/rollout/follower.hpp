// A follower gathers what its rollout's machine needs; a gate judges a live step.
//
// Follows one rollout: gathers each second what is known of its candidate, by the split of its pool and by the requests
// that ended, remembers the gate's last word, and so makes the facts of a tick for its machine. No I/O and no clock:
// the control thread of weir calls it in real time, and a bench in simulated time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "balancer/pool.hpp"
#include "balancer/rollout/machine.hpp"
#include "metrics/compare/comparison/comparison.hpp"
#include "metrics/compare/comparison/conclusion.hpp"
#include "metrics/compare/samples/sample.hpp"

namespace weir::balancer::rollout {

/// The requests that ended, as their keeper has them.
struct Ended {
  const metrics::compare::samples::Names& names;
  /// Returns those that came since a moment. They stay where they are while the call that asks for them lasts.
  std::function<std::vector<const metrics::compare::samples::Sample*>(Moment)> since;
};

class Follower {
 public:
  /// A gate looks at all samples of its step.
  static constexpr std::chrono::seconds gate_every{5};
  /// The stable side's first tokens of so long a time, if so many came, say how long a stream may wait for one; never
  /// less than the least wait.
  static constexpr std::chrono::minutes wait_window{5};
  static constexpr std::size_t least_waits = 20;
  static constexpr config::Seconds least_wait{10};
  /// Further conversations of a step count by request.
  static constexpr std::size_t most_conversations = 200'000;
  static constexpr auto no_comparison_yet = "no comparison of this step has been made yet";

  explicit Follower(config::Rollout settings) : machine(std::move(settings)) {}

  Machine machine;

  /// Returns what has become known since the last call. `candidates` are the replicas of the candidate that are known;
  /// `slo` is null where no objective counts.
  Tick look(Pool& pool, std::span<const ReplicaKey> candidates, const Ended& ended, const config::Slo* slo, Moment now);
  /// The machine has moved, and its pool has the share that it wants now.
  void moved(Reason reason, const SplitFigures& split, Moment now);
  /// The machine is as an earlier process left it.
  void restored(Moment now) { judged_ = step_began_ = now; }

  /// The gate's last word is about another step, or other settings. It is to be asked again then.
  void ask_anew(Moment next);
  bool gate_is_due(Moment now) const;
  /// Says that the gate is asked now. Returns the number of the question.
  std::uint64_t gate_asked(Moment now);
  /// Takes the gate's answer. One to a question about another step says nothing.
  void gate_said(std::uint64_t question, const metrics::compare::comparison::GateResult& gate);
  /// Returns the gate's last word; nothing until it has been asked.
  std::optional<Word> gate() const { return gate_; }
  const std::string& gate_why() const { return gate_why_; }

  /// Since when the samples are those of the step.
  Moment step_began() const { return step_began_; }
  /// Returns the longest wait for a first token, as last looked up; nothing where that is not known.
  std::optional<config::Seconds> wait() const { return wait_; }

 private:
  std::optional<config::Seconds> longest_wait(const Ended& ended, Moment now);
  Counts judge(const Ended& ended, const config::Slo* slo, Moment now);

  SplitFigures counted_;  ///< The pool's counts at the last look.
  Moment judged_{};       ///< The samples until then have been judged by the objective.
  Moment step_began_{};
  std::unordered_map<std::uint64_t, bool> conversations_;  ///< Those of the step that were judged; true if one missed.
  std::uint64_t step_ = 0;                                 ///< Grows with each step and reload.
  std::optional<Word> gate_{};
  std::string gate_why_;
  std::string gate_answers_;
  bool gate_passes_but_for_answers_ = false;
  Moment next_gate_{};
  std::optional<config::Seconds> wait_{};
  Moment next_wait_{};
};

// The gate of a live step: whether the requests of the candidate's side of a split did worse than those of the others.

/// The gate's word and the comparison that it is about.
struct Judged {
  metrics::compare::comparison::GateResult gate;
  metrics::compare::comparison::Comparison comparison;
};

/// The figures by which a split is judged.
struct SplitSides {
  std::string pool;
  std::string candidate;           ///< Its `config`.
  std::string stable;              ///< What the others are called together: their `config`, or a name for several.
  std::optional<config::Slo> slo;  ///< The objective whose misses count.
};

/// A copy of the samples of a step, to be judged on another thread.
class SplitGate {
 public:
  using Names = metrics::compare::samples::Names;
  using Sample = metrics::compare::samples::Sample;

  /// `ended` are the requests since the step began; those of other pools and of shadows are left out.
  SplitGate(std::shared_ptr<Names> names, std::span<const Sample* const> ended, const SplitSides& sides);

  /// Compares both sides.
  Judged judge() const;

 private:
  std::shared_ptr<Names> names_;
  std::vector<Sample> samples_;
  metrics::compare::comparison::Options options_;
};

}  // namespace weir::balancer::rollout

// The gate of a live step: whether the requests of the candidate's side of a split did worse than those of the others.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "metrics/compare/comparison/comparison.hpp"
#include "metrics/compare/comparison/gate.hpp"

namespace weir::balancer::rollout {

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

// The figures of a comparison: what each metric is on both sides, and how sure the ratio is. Whether that is a finding
// is decided over all of them together (findings.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "metrics/compare/comparison/comparison.hpp"
#include "metrics/compare/comparison/course.hpp"
#include "metrics/compare/comparison/looks.hpp"

namespace weir::metrics::compare::comparison {

/// The input of all figures of a comparison.
struct Basis {
  const Comparison& comparison;  ///< Its window, and what holds for all metrics.
  const pairs::Pairing& pairing;
  const Options& options;
  const Past* past;  ///< Null if the samples have all.
  const Judged& judged;
  const std::optional<History>& history;
  std::int64_t complete_us;  ///< Requests that began before have ended, as a rule.
};

struct Figures {
  std::vector<Verdict> verdicts;  ///< In the order in which reports have them; none has a finding yet.
  pairs::TwoByTwo slo{};          ///< As Comparison::slo.
  Times times;
};

/// A metric with a history has a sequence of the whole minutes that have ended; any other has the estimate of what is
/// judged.
Figures figures_of(const Basis& basis);

}  // namespace weir::metrics::compare::comparison

// Whether --fail-if makes `weir compare` fail, for continuous integration.
#pragma once

#include <span>

#include "metrics/compare/comparison/comparison.hpp"
#include "proxy/compare/request.hpp"

namespace weir::proxy::compare {

/// A verdict without its figures.
struct Judgement {
  metrics::compare::statistics::Metric metric = metrics::compare::statistics::Metric::ttft;
  metrics::compare::statistics::Finding finding = metrics::compare::statistics::Finding::inconclusive;
  bool known = false;  ///< The verdict has an interval.
};

/// A tail that is inconclusive does not count, because half an hour seldom tells that a tail is the same. A gate does
/// not pass on no data: without a single interval it fails, whatever it asks for. A window that is running is too few.
bool fails(const Request& request, metrics::compare::comparison::State state, std::span<const Judgement> judgements);

}  // namespace weir::proxy::compare

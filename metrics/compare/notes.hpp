// What a reader of a comparison has to know beside its verdicts. Each note has a code for programs and a sentence.
#pragma once

#include <vector>

#include "metrics/compare/comparison.hpp"
#include "metrics/compare/load.hpp"

namespace weir::metrics::compare {

/// Returns the notes in a fixed order. `drifting` are the metrics whose minutes depend on each other.
std::vector<Note> notes_of(const Comparison& comparison, const Load& load, const Pairing& pairing,
                           std::span<const Metric> drifting);

}  // namespace weir::metrics::compare

// Notes for readers of a comparison, beside its verdicts. Each note has a code for programs and a sentence.
#pragma once

#include <vector>

#include "metrics/compare/comparison/comparison.hpp"
#include "metrics/compare/pairs/load.hpp"

namespace weir::metrics::compare::comparison {

/// Returns the notes in a fixed order. `drifting` are the metrics whose minutes depend on each other; `samples` are all
/// that are known, outside the window as well.
std::vector<Note> notes_of(const Comparison& comparison, const pairs::Load& load, const pairs::Pairing& pairing,
                           std::span<const statistics::Metric> drifting, std::span<const samples::Sample> samples);

/// Says when each of two sides ran that are apart: note no_overlap.
std::string apart_sentence(const Comparison& comparison);

}  // namespace weir::metrics::compare::comparison

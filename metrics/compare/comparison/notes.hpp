// Notes for readers of a comparison, beside its verdicts. Each note has a code for programs and a sentence.
#pragma once

#include <span>
#include <vector>

#include "metrics/compare/comparison/comparison.hpp"

namespace weir::metrics::compare::comparison {

/// Returns the notes in a fixed order. `pairing` is what of the window is held; `samples` are all that are known,
/// outside the window as well.
std::vector<Note> notes_of(const Comparison& comparison, const table::Table& table, const pairs::Pairing& pairing,
                           std::span<const samples::Sample> samples);

}  // namespace weir::metrics::compare::comparison

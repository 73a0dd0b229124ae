// The window of a comparison: as it is declared, or else when both sides have requests and the shadows are warm.
#pragma once

#include <optional>
#include <span>

#include "metrics/compare/comparison/comparison.hpp"

namespace weir::metrics::compare::comparison {

/// Returns the window as far as it is declared.
statistics::Window asked_for(const Options& options);

/// A window, and what a Comparison says of it.
struct FoundWindow {
  statistics::Window window{};  ///< Empty if the sides never met, or the shadow was never warm.
  bool declared = false;
  std::optional<Apart> apart{};  ///< Of a split; the window then holds both times.
};

/// Finds the window of pairs, or of a split. `earlier` has the minutes before those of the pairing; null without any.
/// The cost is that of one look at each request.
FoundWindow window_of(const pairs::Pairing& pairing, std::span<const samples::Sample> samples, const Options& options,
                      const table::Table* earlier);

}  // namespace weir::metrics::compare::comparison

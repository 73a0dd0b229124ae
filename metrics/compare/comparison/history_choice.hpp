// Which history of one configuration a comparison is judged by.
#pragma once

#include <optional>
#include <span>

#include "metrics/compare/comparison/comparison.hpp"

namespace weir::metrics::compare::comparison {

/// Returns the first history of the options that knows the variance of TTFT or TPOT and suits the pool and the mode;
/// without one, that of the couples among the samples. The pairing holds what lies in the window; `past` is null where
/// the samples have all.
std::optional<History> history_for(const pairs::Pairing& pairing, std::span<const samples::Sample> samples,
                                   const samples::Names& names, const Options& options, const Past* past);

/// Returns what a report says of it.
HistoryUsed used(const History& history);

}  // namespace weir::metrics::compare::comparison

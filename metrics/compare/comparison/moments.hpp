// When the requests of a comparison ran, in microseconds since 1970.
#pragma once

#include <cstdint>
#include <span>

#include "metrics/compare/samples/sample.hpp"

namespace weir::metrics::compare::comparison {

/// A log may hold any number, so it is kept within what fits.
std::int64_t microseconds(double seconds);

/// Returns the first moment at which a request was dispatched; 0 without samples.
std::int64_t first_moment(std::span<const samples::Sample> samples);

/// Returns the last moment that the samples tell of; 0 without samples.
std::int64_t last_moment(std::span<const samples::Sample> samples);

}  // namespace weir::metrics::compare::comparison

// When each token event of an answer came, for figures over a part of the time in which a load ran.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lab/load/connection.hpp"

namespace weir::lab::load {

/// The moments of one request for its client, in seconds of the monotonic clock.
struct Course {
  double sent = 0;
  std::vector<double> events;   ///< The moments of its token events, in order; at least one.
  double tokens_per_event = 1;  ///< The mean of all events but the first; more than 1 with speculative decoding.
  std::uint64_t prompt_tokens = 0;
};

double seconds_of(Moment moment);

/// Returns nothing for a request that brought no token.
std::optional<Course> course_of(const Result& result);

}  // namespace weir::lab::load

// A failed request in a report's words.
#pragma once

#include <string>

#include "lab/load/connection.hpp"

namespace weir::lab::load {

/// The user ended the load while the request ran. That is no failure.
inline bool was_ended(const Result& result) { return result.outcome == "unfinished"; }

/// Returns "http_503: busy".
inline std::string failure_of(const Result& result) {
  return result.outcome + (result.detail.empty() ? "" : ": " + result.detail);
}

}  // namespace weir::lab::load

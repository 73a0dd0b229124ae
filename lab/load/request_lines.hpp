// Writes results as lines of weir's request log (docs/reference/request-log.md), so that `weir compare` and `weir-lab
// summary` read them beside production's.
//
// A line says what this client saw: `ttft_s` begins with the first byte sent, and `ttft_client_s` before connecting.
// Figures that a client cannot know are null.
#pragma once

#include <cstdint>
#include <string>

#include "lab/load/connection.hpp"
#include "metrics/record/request_record.hpp"

namespace weir::lab::load {

class RequestLines {
 public:
  /// `label` becomes each line's config; it is null if it is "".
  explicit RequestLines(std::string label);

  /// Returns a request's line, without the newline. Each has an id of its own. Those of a warm-up alone have the member
  /// `warm_up`, which is true.
  std::string line(const Result& result);

 private:
  std::string label_;
  std::uint64_t run_;        ///< Random, so that the ids of two loads differ.
  std::uint64_t lines_ = 0;  ///< The numbers of requests begin anew with each load of a series; this one does not.
};

/// Returns what a result says in the terms of the log. `ended` is the wall clock at the result's end.
metrics::record::RequestRecord record_of(const Result& result, std::chrono::system_clock::time_point ended);

}  // namespace weir::lab::load

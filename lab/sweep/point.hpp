// What the batches of one size measured together: a point of the chart.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/load/connection.hpp"
#include "lab/load/report.hpp"
#include "lab/sweep/batch.hpp"
#include "lab/sweep/knee.hpp"

namespace weir::lab::sweep {

/// One phase over all batches of a size.
struct Phase {
  std::vector<float> latency;       ///< TTFT of each request, or the seconds of each decoded token.
  double tokens_per_second = 0;     ///< All batches' tokens over all batches' time in this phase.
  double slowest = 0, fastest = 0;  ///< The rates of single batches lie between these.
  double batch_seconds = 0;         ///< The mean time of this phase in a batch.
};

struct LoadPoint {
  std::uint64_t concurrency = 0;
  std::uint64_t batches = 0;         ///< They were measured, and every request of theirs was answered.
  std::uint64_t left_out = 0;        ///< In these batches a request failed or had no token; they are in no figure.
  std::uint64_t failed = 0;          ///< So many requests failed, with those of the warm-up.
  std::uint64_t without_token = 0;   ///< So many answers ended well and had no token.
  std::string failure;               ///< The first failure's own words; "" if there was none.
  std::uint64_t steady = 0;          ///< So many of `batches` had a time in which all of the batch decoded.
  Unsteady unsteady = Unsteady::no;  ///< Why the others had none, by the last of them.
  std::optional<Phase> prefill, decode;
  std::string own_delay;  ///< The load tool itself was too slow in a batch, by its own words; "" if it was not.
};

using BatchResults = std::vector<load::Result>;

/// The first `warm_up` batches are in no figure, and so is a batch that is not whole.
LoadPoint load_point(std::uint64_t concurrency, std::span<const BatchResults> batches, std::size_t warm_up);

/// Returns a phase's points as the knee takes them: the mean latency and the throughput. The mean does not change where
/// tokens come in pairs, because somebody on their way was busy; the median does. `phase` is
/// &LoadPoint::prefill or &LoadPoint::decode.
std::vector<Operation> operations_of(std::span<const LoadPoint> points, std::optional<Phase> LoadPoint::*phase);

}  // namespace weir::lab::sweep

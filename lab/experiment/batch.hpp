// Prefill and decode of one batch, apart.
//
// A batch is so many requests sent at once, of which nothing else is left when it begins. Its prefill lasts from the
// first send to the last first token. From then on all of its requests decode together, until the first of them has its
// last token: that is the only time at which the batch decodes in a steady state, so decode is measured there alone.
// Tokens that were decoded while others were still being prefilled, and those of the last ones alone, are
// left out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lab/load/course.hpp"

namespace weir::lab::experiment {

/// A phase of a batch.
struct BatchPhase {
  std::vector<float> latency;  ///< The TTFT of each request, or the gaps between events, each divided by its tokens.
  double seconds = 0;
  double tokens = 0;  ///< Prompt tokens, or those made in these seconds, each request at the rate between its events.
};

/// Why a batch has no decode.
enum class Unsteady : std::uint8_t {
  no,
  one_token,     ///< Answers of one token have no decode.
  not_together,  ///< A request had ended before another had its first token.
  too_short,     ///< A request had fewer than `least_events` events while all decoded.
};

/// The events that each request must have in the steady time.
inline constexpr std::size_t least_events = 8;

struct Batch {
  BatchPhase prefill;
  std::optional<BatchPhase> decode;
  Unsteady unsteady = Unsteady::no;
};

/// `courses` are those of all requests of one batch, and there is at least one.
Batch batch_of(std::span<const load::Course> courses);

}  // namespace weir::lab::experiment

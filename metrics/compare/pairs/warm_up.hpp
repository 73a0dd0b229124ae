// When a shadow's answers begin to count: its caches and its batch were empty at first.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "metrics/compare/pairs/answers.hpp"

namespace weir::metrics::compare::pairs {

struct WarmUp {
  double seconds = 600;                            ///< After a shadow's first request.
  std::optional<std::int64_t> first_request_us{};  ///< The shadow's, if it is not among the samples.
};

inline constexpr std::int64_t never_warm = std::numeric_limits<std::int64_t>::max();

/// Returns the moment from which one side's shadows are warm. `kv_tokens` is what they hold together: they are not warm
/// before they have prefilled as many.
std::int64_t warm_from(const Answers& shadows, std::optional<std::uint64_t> kv_tokens, const WarmUp& warm_up);

}  // namespace weir::metrics::compare::pairs

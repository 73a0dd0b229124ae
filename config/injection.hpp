// The token reports that weir asks of a replica: by the replica's own settings, else those of [measure].
#pragma once

#include "config/settings.hpp"

namespace weir::config {

inline bool injects_usage(const Measure& measure, const Replica& replica) {
  return replica.inject_usage.value_or(measure.inject_usage);
}

inline bool injects_continuous_usage(const Measure& measure, const Replica& replica) {
  return replica.inject_continuous_usage.value_or(measure.inject_continuous_usage);
}

}  // namespace weir::config

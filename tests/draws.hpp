// How much chance a test draws: little every day, much at night.
#pragma once

#include <cstdlib>

namespace weir::tests {

/// Returns `nightly` where WEIR_NIGHTLY is in the environment, as scripts/test-long sets it, and else `usual`.
inline unsigned draws(unsigned usual, unsigned nightly) {
  static const bool is_night = std::getenv("WEIR_NIGHTLY") != nullptr;
  return is_night ? nightly : usual;
}

}  // namespace weir::tests

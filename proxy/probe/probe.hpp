// `weir check --probe`: asks every replica of the settings, all at once, and tells in the order of the file.
#pragma once

#include <chrono>

#include "config/settings.hpp"

namespace weir::proxy::probe {

struct ProbeOptions {
  std::chrono::duration<double> timeout{60};  ///< For each streamed answer; pages have 5 s, or this if it is less.
  bool json = false;                          ///< One JSON object a replica and line, instead of text.
};

/// Blocks. Returns the exit status: 0 if every replica answered and could be measured, else 1. Writes to standard
/// output, and who is still awaited to standard error where that is a terminal.
int probe(const config::Settings& settings, const ProbeOptions& options);

}  // namespace weir::proxy::probe

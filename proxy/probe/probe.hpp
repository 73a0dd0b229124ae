// `weir check --probe` asks every replica of the settings, all at once, and tells in the order of the file.
#pragma once

#include <chrono>

#include "config/settings.hpp"

namespace weir::proxy::probe {

struct ProbeOptions {
  std::chrono::duration<double> timeout{60};  ///< Each streamed answer may take so long; pages have 5 s, or this if it
                                              ///< is less.
  bool json = false;                          ///< The output is one JSON object a replica and line, instead of text.
};

/// Probes all replicas and blocks. Returns the exit status: 0 if every replica answered and could be measured, else 1.
/// Writes to standard output. On a terminal, standard error shows the replicas that are still awaited.
int probe(const config::Settings& settings, const ProbeOptions& options);

}  // namespace weir::proxy::probe

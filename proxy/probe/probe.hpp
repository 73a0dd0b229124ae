// `weir check --probe` asks every replica of the settings, all at once, and tells in the order of the file.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "config/settings.hpp"
#include "proxy/probe/replica.hpp"

namespace weir::proxy::probe {

struct ProbeOptions {
  std::chrono::duration<double> timeout{60};  ///< Each streamed answer may take so long; pages have 5 s, or this if it
                                              ///< is less.
  bool json = false;                          ///< The output is one JSON object a replica and line, instead of text.
};

/// Probes all replicas and blocks. Returns the exit status: 0 if every replica answered and could be measured, else 1.
/// Writes to standard output. On a terminal, standard error shows the replicas that are still awaited.
int probe(const config::Settings& settings, const ProbeOptions& options);

// Writes the findings of a probe for people and for programs, and what to switch on; no I/O.

/// A probed replica and its place in the settings.
struct Probed {
  const config::Settings& settings;
  const config::Pool& pool;
  const config::Replica& replica;
  const ProbeReport& report;
};

/// True if the head of its streamed answers comes clearly before the first token, and not with it.
bool head_before_first_token(const ProbedStream& stream);

/// Returns sentences without their end: what would make weir's numbers or decisions better, and where settings and
/// replica contradict each other. It is empty if all is well.
std::vector<std::string> advice(const Probed& probed);

/// Returns a short block of lines, each with its newline.
std::string text_of(const Probed& probed, bool colours);

/// Returns one JSON object, without newline. Unknown is null.
std::string json_of(const Probed& probed);

}  // namespace weir::proxy::probe

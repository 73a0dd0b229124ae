// Writes the findings of a probe for people and for programs, and what to switch on; no I/O.
#pragma once

#include <string>
#include <vector>

#include "config/settings.hpp"
#include "proxy/probe/replica.hpp"

namespace weir::proxy::probe {

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

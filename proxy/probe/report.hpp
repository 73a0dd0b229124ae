// What a probe found, as people and programs read it, and what to switch on. Pure.
#pragma once

#include <string>
#include <vector>

#include "config/settings.hpp"
#include "proxy/probe/replica.hpp"

namespace weir::proxy::probe {

/// One probed replica and where the settings have it.
struct Probed {
  const config::Settings& settings;
  const config::Pool& pool;
  const config::Replica& replica;
  const ProbeReport& report;
};

/// Whether the head of its streamed answers comes clearly before the first token, or with it.
bool head_before_first_token(const ProbedStream& stream);

/// What would make weir's numbers or decisions better, and where settings and replica contradict each other: sentences
/// without their end. Empty where all is well.
std::vector<std::string> advice(const Probed& probed);

/// A short block of lines, each with its newline.
std::string text_of(const Probed& probed, bool colours);

/// One JSON object, without newline; docs/probe.md lists its members. Unknown is null.
std::string json_of(const Probed& probed);

}  // namespace weir::proxy::probe

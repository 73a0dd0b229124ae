// What the simulations make of a trace: parts of it, and what an engine can do with its requests.
#pragma once

#include <chrono>
#include <cstddef>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "lab/engine/engine_model.hpp"
#include "lab/load/trace.hpp"

namespace weir::bench {

using lab::load::TraceEntry;

/// Reads a trace whose times can be scaled. Throws std::runtime_error with a sentence if it cannot be used.
inline std::vector<TraceEntry> read_trace_file(const std::string& path) {
  std::ifstream file(path);
  auto read = lab::load::read_trace(file, 0);
  if (const auto* wrong = std::get_if<std::string>(&read)) throw std::runtime_error(path + ": " + *wrong);
  auto trace = std::get<std::vector<TraceEntry>>(std::move(read));
  if (trace.size() < 100 || trace.back().at <= 0)
    throw std::runtime_error(path + ": arrivals need 100 entries that are not all of one moment");
  return trace;
}

/// Returns `count` entries of the trace from the entry `first` on, and from its start again at its end. Times grow on.
inline std::vector<TraceEntry> part_of(std::span<const TraceEntry> trace, std::size_t count, std::size_t first) {
  const double turn = trace.back().at * static_cast<double>(trace.size()) / static_cast<double>(trace.size() - 1);
  std::vector<TraceEntry> part(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t place = first + i;
    part[i] = trace[place % trace.size()];
    part[i].at += turn * static_cast<double>(place / trace.size());
  }
  return part;
}

/// Returns the requests per second that an engine answers while requests are always waiting. All are there at the
/// beginning, and the count runs from the first tenth of them to the last.
template <class Requests>
double capacity_of(const lab::engine::EngineSettings& settings, const Requests& requests) {
  lab::engine::EngineModel engine(settings, 1);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    engine.submit({i, requests[i].prompt_tokens, requests[i].output_tokens});
  }
  const std::size_t tenth = requests.size() / 10;
  double now = 0, begun = 0;
  std::size_t done = 0;
  while (const auto took = engine.begin_step()) {
    now += std::chrono::duration<double>(*took).count();
    for (const lab::engine::TokenEvent& event : engine.end_step()) done += event.last ? 1 : 0;
    if (done < tenth) begun = now;
    if (done >= requests.size() - tenth) break;
  }
  return static_cast<double>(requests.size() - 2 * tenth) / (now - begun);
}

}  // namespace weir::bench

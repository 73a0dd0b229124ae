// The workloads by which bench_routing compares ways to choose a replica: the kinds of workloads.hpp, a trace, and
// others in which prompts are shared by users in closed loops, or in which engines and answers are uneven.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/bench/plan/workloads.hpp"

namespace weir::lab::plan {

/// The traces that workloads are made of.
struct TraceOptions {
  std::string mooncake;
  std::string conversations;
  std::size_t requests = 1'000;  ///< Of the conversation trace.
  bool in_order = false;         ///< Each run begins at the trace's first entry.
  double slow_speed = 0.5;       ///< Of the last of the four replicas that serve the trace.
};

struct NamedWorkload {
  std::string name;
  std::vector<double> loads{};  ///< Empty for a rate of its own.
  std::function<Workload(std::uint64_t seed)> make{};
};

/// Returns all of them. A workload is made when it is asked for, by any thread.
std::vector<NamedWorkload> routing_workloads(const TraceOptions& traces);

}  // namespace weir::lab::plan

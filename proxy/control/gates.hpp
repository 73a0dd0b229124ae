// The gate of a running weir: what it says of a shadow, and of a rollout's split, by the last requests. A function made
// here holds a copy of the samples it needs, and is to be called once, on the thread of slow answers.
#pragma once

#include <functional>
#include <string_view>

#include "balancer/rollout/split_gate.hpp"
#include "metrics/moment.hpp"
#include "proxy/control/history.hpp"
#include "proxy/fleet/snapshot.hpp"

namespace weir::proxy::control {

using balancer::rollout::Judged;

/// Compares a shadow as the gauges on /metrics do: with its control, or with its primary. `slo` names the objective
/// whose misses count; "" is the first one of the pool.
std::function<Judged()> gate_of_shadow(const fleet::ShadowRuntime& shadow, const fleet::Snapshot& snapshot,
                                       const History& history, std::string_view slo = {});

/// Compares the candidate's side of a pool with its stable side, by the clients' requests that ended since then.
std::function<Judged()> gate_of_split(const fleet::PoolRuntime& pool, const fleet::Snapshot& snapshot,
                                      const History& history, metrics::Moment since);

}  // namespace weir::proxy::control

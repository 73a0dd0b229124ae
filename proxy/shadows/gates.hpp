// Shadows as a snapshot has them: how each is compared, its gate and its switch; and the gate of a rollout's split.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "balancer/rollout/follower.hpp"
#include "metrics/compare/comparison/comparison.hpp"
#include "metrics/moment.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/shadows/history.hpp"

namespace weir::proxy::shadows {

/// Returns the shadow of this name; null if there is none.
const fleet::ShadowRuntime* shadow_of(const fleet::Snapshot& snapshot, std::string_view name);

/// True if the shadow is on.
bool is_on(const fleet::ShadowRuntime& shadow);
/// True if it has been sent a request since it was last switched on.
bool has_begun(const fleet::ShadowRuntime& shadow);

/// Returns what the figures of a shadow that has been sent requests are: it is compared with its control, if one runs,
/// or else with its primary.
metrics::compare::comparison::Options options_of(const fleet::ShadowRuntime& shadow, const fleet::Snapshot& snapshot,
                                                 const History& history, metrics::compare::samples::Names& names);

/// Switches a shadow, and says so in the log. One that is switched on begins anew. Returns false if it was so before.
bool switch_shadow(const fleet::ShadowRuntime& shadow, bool on, History& history, metrics::Moment now);

/// After a reload: a shadow that gets other requests, or runs elsewhere, is cold again.
void begin_anew(const fleet::Snapshot& before, const fleet::Snapshot& after, History& history, metrics::Moment now);

/// Returns how many tokens the KV caches of the shadows' replicas hold, where that is set or the engine tells it: by
/// the replica's name, and by configuration where the addresses of a name are found.
std::map<std::string, std::uint64_t, std::less<>> kv_tokens_of_shadows(const fleet::Snapshot& snapshot);

// The gate of a running weir: what it says of a shadow, and of a rollout's split, by the last requests. A function made
// here holds a copy of the samples it needs, and is to be called once, on the thread of slow answers.

using balancer::rollout::Judged;

/// Compares a shadow as the gauges on /metrics do: with its control, or with its primary. `slo` names the objective
/// whose misses count; "" is the first one of the pool.
std::function<Judged()> gate_of_shadow(const fleet::ShadowRuntime& shadow, const fleet::Snapshot& snapshot,
                                       const History& history, std::string_view slo = {});

/// Compares the candidate's side of a pool with its stable side, by the clients' requests that ended since then.
std::function<Judged()> gate_of_split(const fleet::PoolRuntime& pool, const fleet::Snapshot& snapshot,
                                      const History& history, metrics::Moment since);

}  // namespace weir::proxy::shadows

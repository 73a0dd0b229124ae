// Shadows on the admin listener: their list, and their switch.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "proxy/control/api.hpp"
#include "proxy/control/history.hpp"
#include "proxy/fleet/snapshot.hpp"

namespace weir::proxy::control {

/// Switches a shadow, and says so in the log. One that is switched on begins anew. Returns false if it was so before.
bool switch_shadow(const fleet::ShadowRuntime& shadow, bool on, History& history,
                   metrics::Moment now);

/// Switches a shadow on or off. One that is switched on begins anew: stop_after, max_pairs and the warm-up count from
/// then.
ApiAnswer shadow_answer(const fleet::Snapshot& snapshot, std::string_view name, bool on, History& history,
                        metrics::Moment now);

/// After a reload: a shadow that gets other requests, or runs elsewhere, is cold again.
void begin_anew(const fleet::Snapshot& before, const fleet::Snapshot& after, History& history,
                metrics::Moment now);

/// Returns how many tokens the KV caches of the shadows' replicas hold, where that is set or the engine tells it: by
/// the replica's name, and by configuration where the addresses of a name are found.
std::map<std::string, std::uint64_t, std::less<>> kv_tokens_of_shadows(const fleet::Snapshot& snapshot);

}  // namespace weir::proxy::control

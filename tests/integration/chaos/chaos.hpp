// A chaos run: clients and replicas misbehave at random, settings are reloaded, replicas die and return, for so many
// seconds; then all is quiet, and every count has to be exact. In the first third of the time the replicas stay the
// same, so that their counters do; later a reload may add, remove, rename and move them. In the last third weir speaks
// TLS with its clients, and they need keys.
#pragma once

#include <cstdint>

namespace weir::chaos {

/// Says what disagrees. What is drawn follows from the seed; what happens first depends on the machine, too.
bool every_count_is_exact(std::uint64_t seed, std::uint64_t seconds);

}  // namespace weir::chaos

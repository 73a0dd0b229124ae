// A rollout's standing as JSON: in the file that outlasts a restart, and in /api/rollout, from which `weir rollout
// status` reads it.
#pragma once

#include <simdjson.h>

#include <optional>

#include "balancer/rollout/machine.hpp"
#include "metrics/wire/json/writer.hpp"

namespace weir::balancer::rollout {

/// Writes the members of a standing into the object that is open. The step has no member: the share tells it, also
/// among steps that a reload has changed. The evidence is for readers; standing_in() passes over it.
void write_standing(metrics::wire::JsonWriter& json, const Standing& standing);

/// Reads a standing from an object that may have other members too. Returns nothing if it is not as write_standing()
/// writes it.
std::optional<Standing> standing_in(simdjson::dom::element object);

}  // namespace weir::balancer::rollout

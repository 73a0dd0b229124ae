// Reads the objects of an event in which an engine reports its own work, by the tables of members.hpp.
#pragma once

#include <span>

#include "metrics/wire/engine/members.hpp"
#include "metrics/wire/json/on_demand.hpp"

namespace weir::metrics::wire {

/// Takes the member's value, if the table has its key.
void take_figure(simdjson::ondemand::raw_json_string key, simdjson::ondemand::value& part,
                 std::span<const FigureMember> table, EngineReport& into);

/// Reads the members of a whole object. Returns false if it is broken.
bool read_figures(simdjson::ondemand::object object, std::span<const FigureMember> table, EngineReport& into);

/// Reads vLLM's `metrics`. Returns false if it is broken.
bool read_vllm_metrics(simdjson::ondemand::value& metrics, EngineFigures& into);

}  // namespace weir::metrics::wire

// A section's rows as a table that fits the screen's width. Pure.
#pragma once

#include "proxy/top/blocks.hpp"
#include "proxy/top/rows.hpp"
#include "proxy/top/state.hpp"
#include "proxy/top/writer.hpp"

namespace weir::proxy::top {

/// Notes in `shown` the rows that can be chosen and the columns to sort by; nullptr where the keys are not the
/// table's. Costs O(rows × log(rows)).
Block table_of(Json document, Section section, const State& state, const Writer& writer, Shown* shown);

}  // namespace weir::proxy::top

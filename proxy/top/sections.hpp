// A section's rows as a table that fits the screen's width. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proxy/top/rows.hpp"
#include "proxy/top/screen.hpp"
#include "proxy/top/state.hpp"
#include "proxy/top/view.hpp"

namespace weir::proxy::top {

/// Notes in `shown` the rows that can be chosen and the columns to sort by; nullptr where the keys are not the
/// table's. Costs O(rows × log(rows)).
Block table_of(Json document, Section section, const State& state, const Writer& writer, Shown* shown);

// The parts of the screen that are no tables, a line for each thing they tell of. Pure.

Block findings_of(Json document, const Writer& writer);

/// Returns the shadows, each with its comparison, and the rollouts.
Block shadows_of(Json document, const Writer& writer);

/// Returns the limits that were hit, and when the certificate ends.
Block limits_of(Json document, const Writer& writer);

/// Returns the events that the filter leaves, the latest first; those about `who` alone where it is not "".
std::vector<Line> events_of(Json document, const Writer& writer, std::string_view filter, std::string_view who = "");

// All that the document tells of one thing, in a list without a table: a row that was chosen, or weir itself. Pure.

/// Writes each member of a value in a line, under its name in docs/reference/api.md, which begins with `name`.
void add_members(std::vector<Line>& lines, const Writer& writer, const std::string& name, Json value);

/// Returns all members of the chosen row, with the findings, the requests and the events that are about it.
std::vector<Line> row_lines(Json document, const State& state, const Writer& writer);

}  // namespace weir::proxy::top

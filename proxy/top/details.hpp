// All that the document tells of one thing, in a list without a table: a row that was chosen, or weir itself. Pure.
#pragma once

#include <string>
#include <vector>

#include "proxy/top/rows.hpp"
#include "proxy/top/state.hpp"
#include "proxy/top/writer.hpp"

namespace weir::proxy::top {

/// Writes each member of a value in a line, under its name in docs/reference/api.md, which begins with `name`.
void add_members(std::vector<Line>& lines, const Writer& writer, const std::string& name, Json value);

/// Returns all members of the chosen row, with the findings, the requests and the events that are about it.
std::vector<Line> row_lines(Json document, const State& state, const Writer& writer);

}  // namespace weir::proxy::top

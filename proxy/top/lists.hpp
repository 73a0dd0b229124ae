// The parts of the screen that are no tables, a line for each thing they tell of. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "proxy/top/blocks.hpp"
#include "proxy/top/rows.hpp"
#include "proxy/top/writer.hpp"

namespace weir::proxy::top {

Block findings_of(Json document, const Writer& writer);

/// Returns the shadows, each with its comparison, and the rollouts.
Block shadows_of(Json document, const Writer& writer);

/// Returns the limits that were hit, and when the certificate ends.
Block limits_of(Json document, const Writer& writer);

/// Returns the events that the filter leaves, the latest first; those about `who` alone where it is not "".
std::vector<Line> events_of(Json document, const Writer& writer, std::string_view filter, std::string_view who = "");

}  // namespace weir::proxy::top

// The last lines of the screen: the question before a change of weir, the filter that is typed, or the keys; and the
// page that explains them. Pure.
#pragma once

#include <vector>

#include "proxy/top/rows.hpp"
#include "proxy/top/state.hpp"
#include "proxy/top/writer.hpp"

namespace weir::proxy::top {

/// `document` is nullptr before the first.
std::vector<Line> foot_of(const Json* document, const State& state, const Writer& writer);

std::vector<Line> help_lines(const Writer& writer);

}  // namespace weir::proxy::top

// Reads what a response head says of the engine's work: TGI's headers.
#pragma once

#include <functional>
#include <string_view>

#include "metrics/wire/engine/figures.hpp"

namespace weir::metrics::wire {

/// All names of these headers begin so: a head without such a name needs no reading.
inline constexpr std::string_view engine_headers_begin = "x-";

/// `value_of` returns a header's value by its lower-case name, and "" if there is none.
EngineFigures engine_head(const std::function<std::string_view(std::string_view)>& value_of);

}  // namespace weir::metrics::wire

// The rules of findings: pure functions of one second's figures. docs/reference/api.md has them as a table.
#pragma once

#include <span>

#include "proxy/live/findings.hpp"

namespace weir::proxy::live {

std::span<const Rule> rules();

}  // namespace weir::proxy::live

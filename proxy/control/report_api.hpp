// GET /api/report: a page, or its data, about the last minutes (docs/reference/api.md).
#pragma once

#include <chrono>
#include <string_view>

#include "config/settings.hpp"
#include "proxy/control/api.hpp"
#include "proxy/live/live.hpp"

namespace weir::proxy::control {

ApiAnswer report_answer(std::string_view query, live::Live& live, const config::Settings& settings);

}  // namespace weir::proxy::control

// What the admin listener says of shadows and does to them.
#pragma once

#include <boost/json/array.hpp>
#include <chrono>
#include <string_view>

#include "proxy/control/api.hpp"
#include "proxy/control/history.hpp"
#include "proxy/fleet/world.hpp"

namespace weir::proxy::control {

/// True for /api/shadow/NAME/on and .../off.
bool is_shadow_path(std::string_view path);

/// Switches a shadow on or off. One that is switched on begins anew: stop_after, max_pairs and the warm-up count from
/// then.
ApiAnswer shadow_answer(const fleet::World& world, std::string_view path, History& history,
                        std::chrono::system_clock::time_point now);

boost::json::array shadows_list(const fleet::World& world);

}  // namespace weir::proxy::control

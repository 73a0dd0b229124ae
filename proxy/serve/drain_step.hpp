// The next step of a server that drains. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::proxy::serve {

enum class DrainStep : std::uint8_t {
  wait,  ///< Streams may still finish.
  cut,   ///< Requests that are left end, and are told, counted and logged.
  stop,  ///< The drain is over.
};

/// `left`: client connections. `late`: the time for this is over; once weir cuts, no connection has ended for long.
constexpr DrainStep drain_step(std::size_t left, bool late, bool cutting) {
  if (left == 0) return DrainStep::stop;
  if (!late) return DrainStep::wait;
  return cutting ? DrainStep::stop : DrainStep::cut;
}

}  // namespace weir::proxy::serve

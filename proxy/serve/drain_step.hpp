// What a server that drains does next. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::proxy::serve {

enum class DrainStep : std::uint8_t {
  wait,  ///< Streams may still finish.
  cut,   ///< All that is left is ended, and is to be told, counted and logged.
  stop,  ///< It is over.
};

/// `left`: client connections. `late`: the time for this is over; once weir cuts, no connection has ended for long.
constexpr DrainStep drain_step(std::size_t left, bool late, bool cutting) {
  if (left == 0) return DrainStep::stop;
  if (!late) return DrainStep::wait;
  return cutting ? DrainStep::stop : DrainStep::cut;
}

}  // namespace weir::proxy::serve

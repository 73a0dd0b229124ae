// Whose fault the end of a request was. The end of each attempt says it once, and whatever counts against anybody
// derives from it: only a replica's own fault lets it rest, ejects it, or keeps a prompt in its books.
#pragma once

#include <cstdint>

namespace weir::balancer {

enum class Blame : std::uint8_t {
  nobody,   ///< The request was answered, or its client left.
  client,   ///< The replica works, and does not take such a request.
  replica,  ///< The replica failed, or had no room.
  weir,     ///< weir lacked something of its own, or ended the request.
};

}  // namespace weir::balancer

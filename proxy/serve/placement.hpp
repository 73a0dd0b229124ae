// Which loop serves a new client connection, and whether there is room for it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "proxy/exchange/loop.hpp"

namespace weir::proxy::serve {

/// The loop with the least work. The connection counts there, and among all of `shared`, from now on until its session
/// ends. Null where `most` connections are open already. On the control thread.
exchange::Loop* place_connection(exchange::Shared& shared, std::span<const std::unique_ptr<exchange::Loop>> loops,
                                 std::size_t most);

}  // namespace weir::proxy::serve

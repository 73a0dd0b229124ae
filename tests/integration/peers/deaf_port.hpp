// A port at which the system neither accepts nor refuses connections, as that of a host which has gone without a word.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/integration/peers/socket.hpp"

namespace weir::integration {

class DeafPort {
 public:
  /// Takes a port on which nobody listens, and fills its backlog. Linux drops what comes to a full backlog.
  explicit DeafPort(std::uint16_t port);
  ~DeafPort();
  DeafPort(const DeafPort&) = delete;
  DeafPort& operator=(const DeafPort&) = delete;

 private:
  Socket listener_;
  std::vector<int> waiting_;
};

}  // namespace weir::integration

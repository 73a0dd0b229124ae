// The address of a port of this machine alone.
#pragma once

#include <netinet/in.h>

#include <cstdint>

namespace weir::integration {

/// 127.0.0.`machine`.
inline sockaddr_in loopback(std::uint16_t port, unsigned machine = 1) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(0x7f000000 + machine);
  return address;
}

}  // namespace weir::integration

// The address of a port of this machine alone.
#pragma once

#include <netinet/in.h>

#include <cstdint>

namespace weir::integration {

inline sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace weir::integration

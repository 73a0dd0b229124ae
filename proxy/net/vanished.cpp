#include "proxy/net/vanished.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

namespace weir::proxy::net {

bool has_vanished(int socket) {
  tcp_info known{};
  socklen_t size = sizeof known;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &known, &size) == 0 && has_vanished(known);
}

}  // namespace weir::proxy::net

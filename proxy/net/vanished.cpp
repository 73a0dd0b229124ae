#include "proxy/net/vanished.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

namespace weir::proxy::net {

bool has_vanished(int socket) {
  tcp_info known{};
  socklen_t size = sizeof known;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &known, &size) == 0 && has_vanished(known);
}

void break_connection(int socket) {
  const sockaddr nowhere{.sa_family = AF_UNSPEC, .sa_data = {}};
  ::connect(socket, &nowhere, sizeof nowhere);
}

}  // namespace weir::proxy::net

// Tells a peer whose system has gone (power, cable, a firewall that forgot the connection) from one that only takes
// nothing. The kernel's own limit, TCP_USER_TIMEOUT, cannot: since Linux 5.11 it also ends a connection whose peer
// keeps its window closed and acknowledges every probe, and it overrides TCP_KEEPCNT (tcp(7)). So weir reads what the
// kernel knows.
#pragma once

#include <netinet/tcp.h>

#include <chrono>

namespace weir::proxy::net {

/// The silence after which a peer has vanished: its system acknowledges nothing. The options of clients' sockets have
/// the kernel ask several times within it.
inline constexpr std::chrono::seconds most_silence{30};

/// True if a peer has vanished: nothing has come from its system for `most_silence`, and at least two segments
/// since went unanswered: retransmissions, probes of its closed window, keepalive probes. One alone may be
/// under way: while a window is closed, the kernel asks less and less often, after some minutes each 120 s.
constexpr bool has_vanished(const tcp_info& known) {
  constexpr auto silence = std::chrono::milliseconds(most_silence).count();
  return known.tcpi_last_ack_recv >= silence && (known.tcpi_retransmits >= 2 || known.tcpi_probes >= 2);
}

/// True if the peer of this socket has vanished; false for a socket that is not of TCP.
bool has_vanished(int socket);

}  // namespace weir::proxy::net

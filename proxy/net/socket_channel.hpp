// A plain socket, of TCP or of a Unix-domain path, as a channel. It is registered with the loop's poller once for its
// life, and the kernel stamps its arrivals if the clock asks for that. A channel that speaks TLS derives from it.
//
// Acknowledgements are left to the kernel, although each read of a token sends one. With TCP_QUICKACK off they could
// wait for 40 ms, and a replica that has Nagle's algorithm on would hold its tokens back for as long.
#pragma once

#include <netinet/tcp.h>

#include <chrono>

#include "proxy/net/address.hpp"
#include "proxy/net/channel.hpp"
#include "proxy/net/poller.hpp"

namespace weir::proxy::net {

class SocketChannel : public Channel {
 public:
  /// `socket` does not block.
  SocketChannel(Poller& poller, const ArrivalClock& clock, UniqueFd socket);

  Read read(std::span<char> into) override;
  ssize_t write(std::span<const std::string_view> pieces, std::size_t offset) override;
  void watch(Watcher* watcher) override;
  void prioritize() override { registration_.prioritize(); }
  void rearm(std::uint32_t events) override { registration_.rearm(events); }
  bool may_read() const override;
  Ended ended() const override;
  bool is_quiet() override;
  bool connecting_waits_for_loop() const override;
  int connect_error() override;
  int unacknowledged() const override;
  void break_off_if_vanished() override;
  void end_writing() override;
  void reset_on_close() override;

 protected:
  /// Asks the system whether one of poll's `events`, or a failure, is there now.
  bool is_ready(short events) const;
  void break_off();

  const ArrivalClock& clock_;
  UniqueFd socket_;
  Poller::Registration registration_;  ///< Ends before the socket is closed.
};

// Tells a peer whose system has gone (power, cable, a firewall that forgot the connection) from one that only takes
// nothing. The kernel's own limit, TCP_USER_TIMEOUT, cannot: since Linux 5.11 it also ends a connection whose peer
// keeps its window closed and acknowledges every probe, and it overrides TCP_KEEPCNT (tcp(7)). So weir reads what the
// kernel knows.

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

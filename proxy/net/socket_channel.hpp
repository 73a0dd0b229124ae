// A plain socket, of TCP or of a Unix-domain path, as a channel. It is registered with the loop's poller once for its
// life, and the kernel stamps its arrivals if the clock asks for that. A channel that speaks TLS derives from it.
//
// Acknowledgements are left to the kernel, although each read of a token sends one. With TCP_QUICKACK off they could
// wait for 40 ms, and a replica that has Nagle's algorithm on would hold its tokens back for as long.
#pragma once

#include "proxy/net/arrival.hpp"
#include "proxy/net/channel.hpp"
#include "proxy/net/unique_fd.hpp"

namespace weir::proxy::net {

class SocketChannel : public Channel {
 public:
  /// `socket` does not block.
  SocketChannel(Poller& poller, const ArrivalClock& clock, UniqueFd socket);

  Read read(std::span<char> into) override;
  ssize_t write(std::span<const std::string_view> pieces, std::size_t offset) override;
  void attach(Watcher& watcher, std::uint32_t tag) override { registration_.attach(watcher, tag); }
  void detach() override { registration_.detach(); }
  void prioritize() override { registration_.prioritize(); }
  void rearm(std::uint32_t events) override { registration_.rearm(events); }
  bool may_read() const override;
  bool hung_up() const override;
  bool broken() const override;
  bool is_quiet() override;
  bool connecting_waits_for_loop() const override;
  int connect_error() override;
  int unacknowledged() const override;
  bool vanished() const override;
  void break_off() override;
  void end_writing() override;
  void reset_on_close() override;

 protected:
  /// Asks the system whether one of poll's `events`, or a failure, is there now.
  bool is_ready(short events) const;

  const ArrivalClock& clock_;
  UniqueFd socket_;
  Poller::Registration registration_;  ///< Ends before the socket is closed.
};

}  // namespace weir::proxy::net

// A connection of weir's own to a replica, plain or TLS, for requests beside the data path: probes, pages, models,
// and `weir check --probe`.
//
// Its channel is one of the data path's: TLS is bounded and arrivals are stamped in one way. All streams of a context
// share a poller, which lives as long as the context.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "config/settings.hpp"
#include "metrics/moment.hpp"
#include "proxy/net/address.hpp"
#include "proxy/net/arrival.hpp"
#include "proxy/net/awaitable.hpp"
#include "proxy/net/channel.hpp"
#include "proxy/net/timer.hpp"

namespace weir::proxy::fleet {

class ReplicaStream final : net::Watcher {
 public:
  /// `limit` is for the operations together; after it they fail. On the context's thread.
  ReplicaStream(const boost::asio::io_context::executor_type& executor, net::Destination to,
                std::chrono::steady_clock::duration limit, config::ReadClock clock = config::ReadClock::read);
  ~ReplicaStream();
  ReplicaStream(const ReplicaStream&) = delete;
  ReplicaStream& operator=(const ReplicaStream&) = delete;
  /// Gives the operations that follow a limit of their own, from now on.
  void set_limit(std::chrono::steady_clock::duration limit);

  /// Connects, with the handshake. Returns 0 or an error as for net::connect_error_text(). `others` are addresses of
  /// the same name, tried in this order where its own takes no connection: one that does not answer leaves those behind
  /// it their share of the time. Each that is tried changes places with the one before.
  net::Awaitable<int> connect(std::span<net::Address> others = {});
  /// Returns the address that was tried last.
  const net::Address& address() const { return to_.address; }
  /// Returns false if that failed.
  net::Awaitable<bool> write(std::string_view bytes);
  /// Returns when the first byte was written: before the call, because over loopback an answer can be stamped before it
  /// returns.
  metrics::Moment sent() const { return sent_; }
  /// Returns how many bytes have come, and when; 0 at the end, -1 if that failed. An end of TLS without a close_notify
  /// is a failure, and so are tls::Socket::most_in_all records in a row without a byte.
  net::Awaitable<net::Channel::Read> read(std::span<char> into);
  /// True if an operation failed by the limit.
  bool timed_out() const { return timed_out_; }
  /// Returns why the replica refused weir, if that is why read() failed: see net::Channel::refusal().
  int refusal() const { return channel_ ? channel_->refusal() : 0; }
  /// Returns the system's word for why write() or read() failed.
  std::string error_text() const;
  /// Returns why write() or read() failed, as a clause: "it did not come within 5 s".
  std::string failure() const;

 private:
  net::Awaitable<int> connect_until(metrics::Moment until);
  net::Awaitable<bool> wait(std::uint32_t events, metrics::Moment until);
  bool is_too_late();
  void ready(std::uint32_t tag, std::uint32_t events) override;
  void prefetch(std::uint32_t, int) const override {}

  boost::asio::io_context& context_;
  net::Destination to_;
  std::chrono::steady_clock::duration limit_;
  metrics::Moment deadline_, sent_{};
  net::Timer timer_;  ///< Cancelled when an event has come.
  const net::ArrivalClock clock_;
  std::unique_ptr<net::Channel> channel_;
  std::uint32_t came_ = 0;  ///< The events of epoll that have come since the last wait for them.
  int error_ = 0;
  bool has_read_ = false, timed_out_ = false;
};

}  // namespace weir::proxy::fleet

// Lets a coroutine wait for a channel. There is one wait at a time, on the loop's thread.
#pragma once

#include <boost/asio/async_result.hpp>
#include <cstdint>

#include "proxy/net/channel.hpp"
#include "proxy/net/completion.hpp"

namespace weir::proxy::net {

class ChannelWait final : Watcher {
 public:
  explicit ChannelWait(Channel& channel) : channel_(channel) { channel_.attach(*this, 0); }
  ~ChannelWait() { channel_.detach(); }
  ChannelWait(const ChannelWait&) = delete;
  ChannelWait& operator=(const ChannelWait&) = delete;

  /// Completes with void() when any of `events`, or a hang-up, is reported, or after cancel().
  template <class Token>
  auto wait(std::uint32_t events, Token&& token) {
    return boost::asio::async_initiate<Token, void()>(
        [this, events](auto handler) {
          events_ = events | hang_up_events;
          completion_.keep(std::move(handler));
        },
        token);
  }
  /// Cancels the current wait, if there is one. The waiter goes on within this call.
  void cancel() {
    if (completion_) completion_.resume();
  }
  /// Cancels the current wait, but the waiter goes on after the current handler.
  void cancel_soon() {
    if (completion_) completion_.tell();
  }

 private:
  void ready(std::uint32_t, std::uint32_t events) override {
    if ((events & events_) != 0) cancel();
  }
  void prefetch(std::uint32_t, int) const override {}

  Channel& channel_;
  std::uint32_t events_ = 0;
  Completion<> completion_;
};

}  // namespace weir::proxy::net

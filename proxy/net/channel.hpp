// A byte stream that is connected, or is being connected. Session, relay and replica client read and write channels;
// only net/ knows their kinds. No call blocks. Only the loop's thread uses a channel.
#pragma once

#include <sys/types.h>

#include <boost/asio/async_result.hpp>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "metrics/moment.hpp"
#include "proxy/net/completion.hpp"
#include "proxy/net/poller.hpp"

namespace weir::proxy::net {

class Channel {
 public:
  /// A handler reads or writes at most so much before others get their turn.
  static constexpr std::size_t bytes_in_a_row = 64 * 1024;

  using Read = net::Read;

  virtual ~Channel() = default;

  /// Makes one read. A read that does not fill `into` has emptied the channel, or the channel has asked for another
  /// turn of its own accord.
  virtual Read read(std::span<char> into) = 0;
  /// Makes one gathering write of at most `bytes_in_a_row`, from `offset` in the first piece on. Returns as send does.
  /// An event that tells of a hang-up comes with an error other than EAGAIN and EINTR, or follows it.
  virtual ssize_t write(std::span<const std::string_view> pieces, std::size_t offset) = 0;

  /// Sets the watcher that is told of epoll's events; null: nobody.
  virtual void watch(Watcher* watcher) = 0;
  /// Tells this watcher before others from now on: tokens come here.
  virtual void prioritize() = 0;
  /// Reports `events` once more, after others have had their turn.
  virtual void rearm(std::uint32_t events) = 0;

  /// Returns false if nothing has come since a read emptied it.
  virtual bool may_read() const = 0;
  /// How far the connection has ended. A peer that has only ended its own direction (FIN) may still read.
  enum class Ended : unsigned char { no, by_peer, broken };
  virtual Ended ended() const = 0;
  /// True if the peer has neither closed nor sent anything that is not read, so that the channel is fit to be used
  /// again.
  virtual bool is_quiet() = 0;
  /// True while it connects, if it waits for the loop and not for the peer: the system has an event that the loop has
  /// not come to yet, or the handshake waits for its turn. It costs a system call.
  virtual bool connecting_waits_for_loop() const { return false; }
  /// Returns the error of a finished connection attempt; 0 means connected.
  virtual int connect_error() = 0;
  /// Returns why the peer refused this side before it sent anything, by the numbers of connect_error(), once a read has
  /// failed. 0 means that it did not refuse: the connection broke.
  virtual int refusal() const { return 0; }
  /// Returns how many bytes the peer's system has not acknowledged yet.
  virtual int unacknowledged() const = 0;
  /// Breaks the connection off if the peer's system has been silent for `most_silence`, though it was asked again and
  /// again: see has_vanished(). The watcher is told by a later event, as of a reset. It costs a system call.
  virtual void break_off_if_vanished() {}
  /// Ends writing: the peer reads the end.
  virtual void end_writing() = 0;
  /// Makes closing discard unsent bytes and send a reset.
  virtual void reset_on_close() = 0;
};

// Lets a coroutine wait for a channel. There is one wait at a time, on the loop's thread.

class ChannelWait final : Watcher {
 public:
  explicit ChannelWait(Channel& channel) : channel_(channel) { channel_.watch(this); }
  ~ChannelWait() { channel_.watch(nullptr); }
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

// A channel to nobody: it takes all that is written and brings nothing. A mirrored request's answer goes there.

class SinkChannel final : public Channel {
 public:
  /// Tells the watcher that the peer has closed.
  void hang_up() {
    hung_up_ = true;
    if (watcher_ != nullptr) watcher_->ready(0, EPOLLRDHUP);
  }

  Read read(std::span<char>) override {
    if (hung_up_) return {};
    errno = EAGAIN;
    return {-1, {}};
  }
  ssize_t write(std::span<const std::string_view> pieces, std::size_t offset) override {
    std::size_t size = 0;
    for (const auto piece : pieces) size += piece.size();
    return static_cast<ssize_t>(size - offset);
  }
  void watch(Watcher* watcher) override { watcher_ = watcher; }
  void prioritize() override {}
  void rearm(std::uint32_t) override {}
  bool may_read() const override { return false; }
  Ended ended() const override { return hung_up_ ? Ended::broken : Ended::no; }
  bool is_quiet() override { return !hung_up_; }
  int connect_error() override { return 0; }
  int unacknowledged() const override { return 0; }
  void end_writing() override {}
  void reset_on_close() override {}

 private:
  Watcher* watcher_ = nullptr;
  bool hung_up_ = false;
};

}  // namespace weir::proxy::net

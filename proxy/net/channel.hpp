// Channels of bytes and what waits on them: completions, deadlines, sockets, vanished peers.
//
// A byte stream that is connected, or is being connected. Session, relay and replica client read and write channels;
// only net/ knows their kinds. No call blocks. Only the loop's thread uses a channel.
#pragma once

#include <netinet/tcp.h>
#include <sys/types.h>

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/intrusive/list.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <utility>

#include "metrics/moment.hpp"
#include "proxy/net/address.hpp"
#include "proxy/net/poller.hpp"

namespace weir::proxy::net {

/// Keeps its handler within itself, so that no wait allocates.
template <class... News>
class Completion {
 public:
  Completion() = default;
  Completion(Completion&& other) noexcept { take(other); }
  Completion& operator=(Completion&& other) noexcept {
    if (this == &other) return *this;
    drop();
    take(other);
    return *this;
  }
  ~Completion() { drop(); }

  template <class Handler>
  void keep(Handler handler) {
    static_assert(sizeof(KeptHandler<Handler>) <= room && alignof(KeptHandler<Handler>) <= alignof(std::max_align_t));
    drop();
    kept_ = new (place_) KeptHandler<Handler>(std::move(handler));
  }
  explicit operator bool() const { return kept_ != nullptr; }

  /// Tells the handler within this call, which may end the operation's object.
  void resume(News... news) { std::exchange(kept_, nullptr)->resume(news...); }
  /// Tells the handler from its executor, after the current handler.
  void tell(News... news) { std::exchange(kept_, nullptr)->tell(news...); }

 private:
  static constexpr std::size_t room = 32;

  struct Kept {
    virtual ~Kept() = default;
    /// Both end this object before they tell its handler.
    virtual void resume(News... news) = 0;
    virtual void tell(News... news) = 0;
    virtual Kept* move_to(void* place) noexcept = 0;
  };
  template <class Handler>
  struct KeptHandler final : Kept {
    explicit KeptHandler(Handler h) : handler(std::move(h)) {}
    void resume(News... news) override {
      auto told = take();
      told(news...);
    }
    void tell(News... news) override {
      const auto executor = boost::asio::get_associated_executor(handler);
      boost::asio::post(executor, [told = take(), news...]() mutable { told(news...); });
    }
    Kept* move_to(void* place) noexcept override { return new (place) KeptHandler(take()); }
    Handler take() {
      auto told = std::move(handler);
      this->~KeptHandler();
      return told;
    }
    Handler handler;
  };

  void take(Completion& other) noexcept {
    if (Kept* const kept = std::exchange(other.kept_, nullptr)) kept_ = kept->move_to(place_);
  }
  void drop() noexcept {
    if (Kept* const kept = std::exchange(kept_, nullptr)) kept->~Kept();
  }

  Kept* kept_ = nullptr;  ///< In its place.
  alignas(std::max_align_t) std::byte place_[room];
};

// Every coroutine that runs on an io_context has this type.

template <class T>
using Awaitable = boost::asio::awaitable<T, boost::asio::io_context::executor_type>;
using use_awaitable_t = boost::asio::use_awaitable_t<boost::asio::io_context::executor_type>;
inline constexpr use_awaitable_t use_awaitable{};

// Everything that waits on an io_context uses this timer: it takes the context's executor without a type-erased one.

using Timer =
    boost::asio::basic_waitable_timer<std::chrono::steady_clock, boost::asio::wait_traits<std::chrono::steady_clock>,
                                      boost::asio::io_context::executor_type>;

// Deadlines without timers: a time point that is moved by writing it, and that the loop's tick looks at.
//
// A tick begins a round, in which everything with a deadline has its turn once. A round goes on in portions, and others
// have their turn between two of them: thousands that end together stop no loop, and no more does the look at thousands
// that do not. A deadline is noticed at most one tick (100 ms) and one round late. Only the loop's thread uses it.

/// An object with a deadline. It is in a list from attach() until it goes.
class Timed : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
 public:
  virtual metrics::Moment deadline() const = 0;  ///< Moment::max() means none.
  /// Handles the deadline. It may destroy itself and others.
  virtual void deadline_passed(metrics::Moment now) = 0;

 protected:
  ~Timed() = default;
};

class Deadlines {
 public:
  /// The end of a request takes some tens of microseconds, a look some tens of nanoseconds: a portion of either takes
  /// about as long as a batch of tokens (net/poller).
  static constexpr std::size_t handled_at_once = 16, looked_at_at_once = 1024;

  /// Lets an object have its turn from the next round on.
  void attach(Timed& timed) { all_.push_back(timed); }
  /// Begins a round, unless one is under way. Returns true if it has begun one that is not over: go_on() is to be
  /// called then, after others have had their turn, until it returns false.
  bool tick(metrics::Moment now);
  bool go_on(metrics::Moment now);

 private:
  using List = boost::intrusive::list<Timed, boost::intrusive::constant_time_size<false>>;
  List all_;
  List left_;  ///< Objects that have not had their turn in the present round.
};

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

// A plain socket, of TCP or of a Unix-domain path, as a channel. It is registered with the loop's poller once for its
// life, and the kernel stamps its arrivals if the clock asks for that. A channel that speaks TLS derives from it.
//
// Acknowledgements are left to the kernel, although each read of a token sends one. With TCP_QUICKACK off they could
// wait for 40 ms, and a replica that has Nagle's algorithm on would hold its tokens back for as long.

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

// The inner set: each loop has one epoll for the sockets of clients and replicas, and Asio waits on it as on a single
// descriptor.
//
// The set is edge-triggered, and a socket is registered once for its life. So a whole batch of tokens costs one
// epoll_wait, and neither a token nor a request costs an epoll_ctl (docs/benchmarks.md has what that saves). Readiness
// is remembered until a read has emptied the socket, so a socket without a watcher loses no event. Only the loop's
// thread uses a poller.
//
// A registration that carries tokens can be prioritized: its watcher is told before all others of the batch. The others
// are told for 150 us at a time, and after the tokens that have come meanwhile, so that hundreds of
// requests that begin together do not hold up those under way. A watcher with more than a turn's bytes asks for another
// turn, which priority does not advance. Such turns are long, so they come one at a time: a hundred of them hold up a
// token as one does.
//
// Work that wakes another process can be deferred to the end of the batch: requests that came together go to a replica
// together, and whole answers to their clients, so that each process is woken once (docs/benchmarks.md).
#pragma once

#include <sys/epoll.h>
#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <span>
#include <vector>

#include "config/settings.hpp"
#include "metrics/moment.hpp"
#include "proxy/net/address.hpp"

namespace weir::proxy::net {

/// The events that tell of a peer's end or of a broken connection.
inline constexpr std::uint32_t hang_up_events = EPOLLRDHUP | EPOLLHUP | EPOLLERR;

/// A watcher is told when one of its descriptors is ready.
class Watcher {
 public:
  /// Says what is ready. `tag` is the one given to attach(); `events` are epoll's.
  virtual void ready(std::uint32_t tag, std::uint32_t events) = 0;

  /// Says that its turn comes after `ahead` others, from `farthest_ahead` down to 1; ready() follows. It may prefetch
  /// what ready() will touch, because with hundreds of streams a stream's data is out of the cache when its token
  /// comes. It must not change anything. Three steps along the pointers were faster than the same state in one block.
  static constexpr int farthest_ahead = 3;
  virtual void prefetch(std::uint32_t tag, int ahead) const = 0;

 protected:
  ~Watcher() = default;
};

struct DeferredTag;
using DeferredHook = boost::intrusive::list_base_hook<boost::intrusive::tag<DeferredTag>,
                                                      boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

/// Work that waits for the end of a batch. It leaves the queue when it goes, and when it has run.
class Deferred : public DeferredHook {
 public:
  /// Does the work. It may destroy itself and others.
  virtual void batch_ended() = 0;

 protected:
  ~Deferred() = default;
};

class Poller {
 public:
  /// Throws boost::system::system_error if the system has no more descriptors.
  Poller();
  /// Tells watchers from now on, in handlers of this context, until stop() or its end. A poller outlives its context,
  /// because the pending handlers that the context destroys may hold registrations.
  void start(boost::asio::io_context& context);
  void stop() { waiter_.reset(); }

  /// Defers work until the watchers of the batch under way have been told. Returns false if none is under way: then the
  /// caller does the work itself.
  bool defer(Deferred& work);

  /// A descriptor's place in the set. It ends before its descriptor is closed, which no other process may hold open.
  class Registration {
   public:
    Registration(Poller& poller, int fd);
    ~Registration();
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

    /// Sets the watcher; detach() removes it. A watcher detaches before it goes.
    void attach(Watcher& watcher, std::uint32_t tag);
    /// Tells this watcher before others, until another attaches.
    void prioritize();
    void detach();
    /// Reports `events` once more, after others have had their turn, and with them what comes until then. A descriptor
    /// whose turn is still to come keeps its place.
    void rearm(std::uint32_t events);
    /// Returns those of epoll's events that were reported and not used up since.
    std::uint32_t noted() const;
    void use_up(std::uint32_t events);

   private:
    Poller& poller_;
    const std::uint32_t slot_;
  };

 private:
  /// A slot outlives its registration, so that an event of one that ended in the same batch is known to be stale.
  struct Slot {
    Watcher* watcher = nullptr;
    std::uint32_t tag = 0;
    std::uint32_t generation = 0;
    std::uint32_t noted = 0;
    std::uint32_t rearmed = 0;  ///< The events of its next turn; 0 if it has asked for none.
    std::uint32_t queued = 0;   ///< The events of its turn among the unprioritized; 0 if it is not queued there.
    bool prioritized = false;
  };
  /// Returns the slot of an event, or nothing if its registration has ended.
  Slot* live(const epoll_event& event);
  std::uint32_t take_slot(int fd);
  void wait();
  void drain() noexcept;
  void sort_in(const epoll_event& event);
  void queue(Slot& slot, const epoll_event& event);
  void tell_batch();
  void report(const epoll_event& event);
  void report_unprioritized();
  void report_rearmed();
  void rethrow_later(const std::exception_ptr& failure);
  void run_deferred();
  template <class Handler>
  void post(Handler handler);
  void post_unprioritized();
  void post_rearmed();
  void queue_rearmed(const epoll_event& event);

  UniqueFd set_;
  std::optional<boost::asio::posix::basic_stream_descriptor<boost::asio::io_context::executor_type>> waiter_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::deque<epoll_event> rearmed_;        ///< Sockets that have asked for another turn.
  std::vector<epoll_event> batch_;         ///< A member so that its memory is kept.
  std::deque<epoll_event> unprioritized_;  ///< Noted events that are reported after the prioritized ones.
  boost::intrusive::list<Deferred, boost::intrusive::base_hook<DeferredHook>,
                         boost::intrusive::constant_time_size<false>>
      at_batch_end_;
  bool telling_ = false;         ///< A batch is under way.
  bool turn_posted_ = false;     ///< A handler is to report the unprioritized.
  bool batch_was_full_ = false;  ///< The last batch may have left prioritized sockets in the set.
  int deferred_ = 0;             ///< So often in a row the unprioritized have let them go first.
};

// Reads bytes together with the time they arrived: the kernel's receive stamp, converted to monotonic time.
//
// SO_TIMESTAMPNS stamps with the wall clock. Both clocks are read with each stamp (40 ns), so that a step of the wall
// clock is followed at once. A stamp from the future, older than 10 s, or of before such a step is not believed.

struct BothClocks {
  std::chrono::nanoseconds wall;  ///< Since 1970.
  metrics::Moment now;
};

/// Reads both clocks as one: `wall()` and `monotonic()`, after `before` was read from the latter. A thread that lost
/// its processor in between reads them again. The monotonic clock is the last one, so that no stamp is ever converted
/// to an earlier moment than its own: an answer would seem to have come before its request.
template <class Wall, class Monotonic>
BothClocks read_both(metrics::Moment before, const Wall& wall, const Monotonic& monotonic) {
  constexpr std::chrono::microseconds at_once{5};
  BothClocks both{};
  for (int tries = 0; tries < 5; ++tries) {
    both = {wall(), {}};
    both.now = monotonic();
    if (both.now - before <= at_once) break;
    before = both.now;
  }
  return both;
}

/// Returns the monotonic time of a wall-clock stamp, given both clocks now; `now` if the stamp cannot be believed.
metrics::Moment monotonic_of(std::chrono::nanoseconds stamp, std::chrono::nanoseconds wall_now, metrics::Moment now);

/// Converts stamps, and notices when the wall clock has been set: the distance of the two clocks has changed. Bytes
/// from before that have a stamp of another time, and would seem to be older than their request. One thread uses it.
class StampedTime {
 public:
  /// Returns the monotonic time of the stamp; `both.now` if it came before the wall clock was set.
  metrics::Moment of(std::chrono::nanoseconds stamp, const BothClocks& both);

 private:
  std::optional<std::chrono::nanoseconds> distance_;
  metrics::Moment looked_{}, set_ = metrics::Moment::min();
};

/// The result of a read.
struct Read {
  ssize_t size = 0;  ///< As for recv: 0 at the end, -1 with errno.
  metrics::Moment at{};
};

class ArrivalClock {
 public:
  explicit ArrivalClock(config::ReadClock source) : source_(source) {}

  /// Takes another source. A socket that was not to be stamped goes on with the moments of its reads.
  void set(config::ReadClock source) { source_ = source; }

  /// Asks the kernel to stamp what arrives on this socket.
  void enable(int fd) const;

  /// Makes one non-blocking read.
  Read read(int fd, std::span<char> buffer) const;

 private:
  config::ReadClock source_;
  mutable StampedTime stamped_;
};

}  // namespace weir::proxy::net

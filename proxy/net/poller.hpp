// The inner set: each loop has one epoll for the sockets of clients and replicas, and Asio waits on it as on a single
// descriptor.
//
// It is edge-triggered, and a socket is registered once for its life. So a whole batch of tokens costs one epoll_wait,
// and neither a token nor a request costs an epoll_ctl (docs/benchmarks.md has what that saves). What was reported
// stays noted until it is used up, so a socket that nobody watches for a while loses nothing. Only the loop's thread
// uses it.
//
// A registration that carries tokens can be prioritized: it is told before all others of its batch. The others are told
// a few at a time, so that hundreds of requests that begin together do not hold up the tokens of those under way. One
// that has more than a turn's bytes asks for another turn, and until then nothing prioritizes it. Those are told one at
// a time, because a turn of theirs is long: a hundred of them hold up a token as one does.
#pragma once

#include <sys/epoll.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "proxy/net/unique_fd.hpp"

namespace weir::proxy::net {

/// A watcher is told when one of its descriptors is ready.
class Watcher {
 public:
  /// Says what is ready. `tag` is the one given to attach(); `events` are epoll's.
  virtual void ready(std::uint32_t tag, std::uint32_t events) = 0;

  /// Says that its turn comes after `ahead` others, from `farthest_ahead` down to 1; ready() follows. It may prefetch
  /// what ready() will touch, because with hundreds of streams a stream's data is out of the cache when its token
  /// comes. It must not change anything.
  static constexpr int farthest_ahead = 3;
  virtual void prefetch(std::uint32_t tag, int ahead) const = 0;

 protected:
  ~Watcher() = default;
};

class Poller {
 public:
  /// Throws boost::system::system_error if the system has no more descriptors.
  Poller();
  /// Tells watchers from now on, in handlers of this context, until stop() or its end. A poller outlives its context,
  /// because what the context destroys with its pending handlers may hold registrations.
  void start(boost::asio::io_context& context);
  void stop() { waiter_.reset(); }

  /// A descriptor's place in the set. It ends before its descriptor is closed, which nobody else may hold open.
  class Registration {
   public:
    Registration(Poller& poller, int fd);
    ~Registration();
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

    /// Sets who is told from now on; nobody is after detach(). A watcher detaches before it goes.
    void attach(Watcher& watcher, std::uint32_t tag);
    /// Tells this watcher before others, until another attaches.
    void prioritize();
    void detach();
    /// Reports `events` once more, after others have had their turn, and with them what comes until then. A descriptor
    /// whose turn is still to come keeps its place among those that are ready.
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
    std::uint32_t again = 0;    ///< These are to be told in its next turn; 0 if it has asked for none.
    std::uint32_t waiting = 0;  ///< These are to be told when its turn in rest_ comes; 0 if it does not stand there.
    bool prioritized = false;
  };
  /// Returns the slot of an event, or nothing if its registration has ended.
  Slot* live(const epoll_event& event);
  std::uint32_t take_slot(int fd);
  void wait();
  void drain();
  void sort_in(const epoll_event& event);
  void report(const epoll_event& event);
  void report_some_of_the_rest();
  void post_again();

  UniqueFd set_;
  std::optional<boost::asio::posix::basic_stream_descriptor<boost::asio::io_context::executor_type>> waiter_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::deque<epoll_event> again_;   ///< They have asked for another turn.
  std::vector<epoll_event> batch_;  ///< It is kept for its memory.
  std::deque<epoll_event> rest_;    ///< They are noted, and are to be told after those that are prioritized.
};

}  // namespace weir::proxy::net

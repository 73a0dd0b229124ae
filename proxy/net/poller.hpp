// The inner set: one epoll a loop for the sockets of exchanges under way, waited on by Asio as a single descriptor.
//
// Edge-triggered: a whole batch of tokens costs one epoll_wait, and a token no epoll_ctl and no wasted read
// (docs/benchmarks.md has what that saves against a wait per socket). One thread, the loop's.
#pragma once

#include <sys/epoll.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <optional>
#include <vector>

#include "proxy/net/unique_fd.hpp"

namespace weir::proxy::net {

/// Told when a descriptor of its is ready.
class Watcher {
 public:
  /// `tag` is the one given to Poller::add; `events` are epoll's.
  virtual void ready(std::uint32_t tag, std::uint32_t events) = 0;

  /// Its turn comes after `ahead` others, from `farthest_ahead` down to 1, and then ready() follows: what that will
  /// touch may be asked into the cache. With hundreds of streams a token finds all that is its stream's evicted. Must
  /// not change anything.
  static constexpr int farthest_ahead = 3;
  virtual void approach(std::uint32_t tag, int ahead) const = 0;

 protected:
  ~Watcher() = default;
};

class Poller {
 public:
  /// Throws boost::system::system_error where the system has no more descriptors.
  Poller();
  /// Watches are told from now on, in handlers of this context, until stop() or its end. A poller outlives its context:
  /// what the context destroys with its pending handlers may hold watches.
  void start(boost::asio::io_context& context);
  void stop() { waiter_.reset(); }

  /// A watch; it ends before its descriptor is closed and before its watcher goes.
  class Watch {
   public:
    Watch() = default;
    Watch(Poller& poller, int fd, std::uint32_t events, Watcher& watcher, std::uint32_t tag);
    Watch(Watch&& other) noexcept;
    Watch& operator=(Watch&& other) noexcept;
    ~Watch() { reset(); }
    void reset();
    explicit operator bool() const { return poller_ != nullptr; }
    /// Changes the events of interest, and reports what is ready now once more.
    void rearm(std::uint32_t events);

   private:
    Poller* poller_ = nullptr;
    int fd_ = -1;
    std::uint32_t slot_ = 0;
  };

 private:
  /// A slot outlives its watch, so that an event of a watch that ended in the same batch is known to be stale.
  struct Slot {
    Watcher* watcher = nullptr;
    std::uint32_t tag = 0;
    std::uint32_t generation = 0;
  };
  /// The slot of an event, or nothing if its watch has ended.
  const Slot* live(const epoll_event& event) const;
  void wait();
  void drain();
  void control(int operation, int fd, std::uint32_t events, std::uint32_t slot);

  UniqueFd set_;
  std::optional<boost::asio::posix::basic_stream_descriptor<boost::asio::io_context::executor_type>> waiter_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace weir::proxy::net

// Reads bytes together with the time they arrived: the kernel's receive stamp, converted to monotonic time.
//
// SO_TIMESTAMPNS stamps with the wall clock. Both clocks are read with each stamp (20 ns), so that a step of the wall
// clock is followed at once. A stamp from the future or older than 10 s is not believed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>

#include "config/settings.hpp"
#include "metrics/moment.hpp"

namespace weir::proxy::net {

class ArrivalClock {
 public:
  explicit ArrivalClock(config::ReadClock source) : source_(source) {}

  /// Takes another source. A socket that was not to be stamped goes on with the moments of its reads.
  void set(config::ReadClock source) { source_ = source; }

  /// Asks the kernel to stamp what arrives on this socket.
  void enable(int fd) const;

  struct Read {
    ssize_t size = 0;  ///< It is as for recv: 0 at the end, -1 with errno.
    metrics::Moment at;
  };
  /// Makes one non-blocking read.
  Read read(int fd, std::span<char> buffer) const;

 private:
  config::ReadClock source_;
};

/// Returns the monotonic time of a wall-clock stamp, given both clocks now; `now` if the stamp cannot be believed.
metrics::Moment monotonic_of(std::chrono::nanoseconds stamp, std::chrono::nanoseconds wall_now, metrics::Moment now);

}  // namespace weir::proxy::net

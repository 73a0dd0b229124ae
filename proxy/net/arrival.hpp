// Reads bytes together with the time they arrived: the kernel's receive stamp, converted to monotonic time.
//
// SO_TIMESTAMPNS stamps with the wall clock. Both clocks are read with each stamp (40 ns), so that a step of the wall
// clock is followed at once. A stamp from the future, older than 10 s, or of before such a step is not believed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>

#include "config/settings.hpp"
#include "metrics/moment.hpp"

namespace weir::proxy::net {

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

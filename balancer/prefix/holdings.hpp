// A model of one replica's prefix cache: the tokens used last, up to a capacity.
//
// Time is counted in epochs, each of which lasts until a 256th of the capacity was used. A bucket an epoch says how
// many tokens were used in it and never since. What is beyond the capacity leaves by the oldest bucket: this is the
// order of a least-recently-used list, exact to a bucket, without a list. So whether something is still there is one
// comparison of the epoch of its last use. What left last, a quarter of the capacity, is remembered as ghosts: an
// engine that still has it has more room than was thought.
//
// There are at most `most_buckets` buckets of 8 bytes, and one more that is new. A call costs O(log n) in their number
// n, and O(n) once an epoch. Nothing here allocates.
#pragma once

#include <algorithm>
#include <boost/container/static_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "balancer/tokens.hpp"

namespace weir::balancer {

/// Tokens as the index keeps them, in four bytes.
constexpr std::uint32_t capped(Tokens tokens) {
  return static_cast<std::uint32_t>(std::min<Tokens>(tokens, std::numeric_limits<std::uint32_t>::max()));
}

class PrefixHoldings {
 public:
  using Epoch = std::uint32_t;  ///< 0 is before all use.
  static constexpr unsigned epoch_bits = 27;
  static constexpr std::size_t most_buckets = 320;
  static constexpr Tokens buckets_of_capacity = 256;
  static constexpr Tokens least_capacity = 4096;

  explicit PrefixHoldings(Tokens capacity) { set_capacity(capacity); }

  bool holds(Epoch used) const { return used >= horizon_; }
  /// True for what was held and has left for want of room.
  bool lost(Epoch used) const { return used >= first_ && used < horizon_; }
  /// True for what is held, and for what left last.
  bool remembers(Epoch used) const { return used >= ghosts_; }
  /// Uses a segment of so many tokens now, whose last use was in epoch `used`. Returns the epoch of this use.
  Epoch use(Epoch used, Tokens segment);
  /// Forgets a segment that was last used in that epoch.
  void release(Epoch used, Tokens segment);
  /// Returns how many tokens were used in that epoch or after it, and never since: the room that it takes to hold it.
  Tokens depth(Epoch used) const;
  /// Forgets everything. Costs O(1).
  void wipe();
  /// True if no epoch is left: 2^epoch_bits of them were used. Every epoch that was returned is void after a wipe(),
  /// which then begins at 1.
  bool exhausted() const { return now_ >= last_epoch; }

  /// True if nothing was used since the beginning or the last wipe.
  bool is_new() const { return buckets_.empty(); }
  Tokens held() const { return held_; }
  Tokens capacity() const { return capacity_; }
  void set_capacity(Tokens capacity);

 private:
  static constexpr Epoch last_epoch = (Epoch{1} << epoch_bits) - 16;

  struct Bucket {
    Epoch first = 0;
    std::uint32_t tokens = 0;
  };

  Bucket& bucket_of(Epoch used);
  void open_bucket();
  void evict();
  void merge();

  Tokens capacity_ = 0, held_ = 0, ghost_tokens_ = 0;
  Epoch first_ = 1;    ///< The first since the beginning or the last wipe.
  Epoch now_ = 1;      ///< The last bucket's, where there is one.
  Epoch horizon_ = 1;  ///< The first epoch of what is held.
  Epoch ghosts_ = 1;   ///< The first epoch of what is remembered.
  /// By age, the oldest first: ghosts, then what is held.
  boost::container::static_vector<Bucket, most_buckets + 1> buckets_;
};

}  // namespace weir::balancer

// The sum of what many have, where nobody counts for more than a cap: what fair turns give them meanwhile.
//
// Each has a size above 0 and an amount. One whose size is within the cap counts for its amount, a larger one for cap /
// size of it; where the amount is the size, for the cap. A sum is as large as it should be, or up to 3 % larger: of
// those whose sizes are as close to the cap as that, only totals are kept.
//
// Nothing here allocates. add() and remove() cost O(1), and a sum a look at each bucket of sizes that is in use: 8 for
// each power of two. Its owner's mutex guards it.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "balancer/tokens.hpp"

namespace weir::balancer {

class CappedSums {
 public:
  void add(double size, double amount) noexcept {
    const std::size_t number = bucket_of(size);
    Bucket& bucket = buckets_[number];
    if (bucket.members++ == 0) set_used(number);
    bucket.amount += amount;
    bucket.part += amount / size;
  }
  /// Takes out one that was added like this.
  void remove(double size, double amount) noexcept {
    const std::size_t number = bucket_of(size);
    Bucket& bucket = buckets_[number];
    bucket.amount -= amount;
    bucket.part -= amount / size;
    if (--bucket.members > 0) return;
    bucket = {};  // What rounding left of the sums goes, too.
    set_used(number);
  }
  double capped_at(double cap) const noexcept {
    double sum = 0;
    each_used([&](const Bucket& bucket) { sum += std::min(bucket.amount, cap * bucket.part); });
    return sum;
  }
  std::size_t buckets() const noexcept {
    std::size_t count = 0;
    each_used([&](const Bucket&) { ++count; });
    return count;
  }

 private:
  struct Bucket {
    std::size_t members = 0;
    double amount = 0, part = 0;  ///< `part` of the amounts for each 1 of the cap.
  };

  /// Sizes are from 2^-16 to 2^64; those beyond are in the first bucket and in the last.
  static constexpr double least = 0x1p-16, most = 0x1p64;
  static constexpr std::size_t words = 80 * 8 / 64;
  /// The exponent and the first three bits behind the point.
  static constexpr std::uint64_t bits_of(double size) { return std::bit_cast<std::uint64_t>(size) >> 49; }
  static std::size_t bucket_of(double size) {
    constexpr std::uint64_t last = bits_of(most) - 1;
    return std::clamp(bits_of(size), bits_of(least), last) - bits_of(least);
  }

  /// Notes whether a bucket is in use, after it has changed.
  void set_used(std::size_t number) {
    const std::uint64_t bit = std::uint64_t{1} << number % 64;
    if (buckets_[number].members > 0)
      used_[number / 64] |= bit;
    else
      used_[number / 64] &= ~bit;
  }
  template <class Look>
  void each_used(Look look) const {
    for (std::size_t word = 0; word < words; ++word)
      for (std::uint64_t left = used_[word]; left != 0; left &= left - 1)
        look(buckets_[word * 64 + static_cast<std::size_t>(std::countr_zero(left))]);
  }

  std::array<std::uint64_t, words> used_{};
  std::array<Bucket, words * 64> buckets_{};
};

/// The same of work: nobody counts for more requests, nor for more tokens, than the caps.
class CappedWork {
 public:
  void add(const Work& work) noexcept {
    if (work.requests > 0) requests_.add(static_cast<double>(work.requests), static_cast<double>(work.requests));
    if (work.tokens > 0) tokens_.add(static_cast<double>(work.tokens), static_cast<double>(work.tokens));
  }
  void remove(const Work& work) noexcept {
    if (work.requests > 0) requests_.remove(static_cast<double>(work.requests), static_cast<double>(work.requests));
    if (work.tokens > 0) tokens_.remove(static_cast<double>(work.tokens), static_cast<double>(work.tokens));
  }
  /// Returns what all have but one, who has so much.
  Work of_others(const Work& one, const Work& caps) const {
    const Work own = one.up_to(caps);
    return {static_cast<std::size_t>(others(requests_, own.requests, caps.requests)),
            static_cast<Tokens>(others(tokens_, own.tokens, caps.tokens))};
  }

 private:
  template <class Count>
  static std::int64_t others(const CappedSums& sums, Count own, Count cap) {
    return std::llround(sums.capped_at(static_cast<double>(cap)) - static_cast<double>(own));
  }

  CappedSums requests_, tokens_;
};

}  // namespace weir::balancer

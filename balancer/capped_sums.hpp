// The sum of what many have, where nobody counts for more than a cap: what fair turns give them meanwhile.
//
// Each has a size above 0 and an amount. One whose size is within the cap counts for its amount, a larger one for cap /
// size of it; where the amount is the size, for the cap. A sum is as large as it should be, or up to 3 % larger: of
// those whose sizes are as close to the cap as that, only totals are kept.
//
// A call costs O(log n) and a sum a look at each bucket of sizes that is in use: 8 for each power of two, however many
// there are. Its owner's mutex guards it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>

#include "balancer/tokens.hpp"

namespace weir::balancer {

class CappedSums {
 public:
  void add(double size, double amount) {
    Bucket& bucket = buckets_[bucket_of(size)];
    ++bucket.members;
    bucket.amount += amount;
    bucket.part += amount / size;
  }
  /// Takes out one that was added like this.
  void remove(double size, double amount) {
    const auto found = buckets_.find(bucket_of(size));
    found->second.amount -= amount;
    found->second.part -= amount / size;
    if (--found->second.members == 0) buckets_.erase(found);
  }
  double capped_at(double cap) const {
    double sum = 0;
    for (const auto& [number, bucket] : buckets_) sum += std::min(bucket.amount, cap * bucket.part);
    return sum;
  }
  std::size_t buckets() const { return buckets_.size(); }

 private:
  struct Bucket {
    std::size_t members = 0;
    double amount = 0, part = 0;  ///< `part` of the amounts for each 1 of the cap.
  };
  /// The exponent and the first three bits behind the point.
  static std::uint64_t bucket_of(double size) { return std::bit_cast<std::uint64_t>(size) >> 49; }

  std::map<std::uint64_t, Bucket> buckets_;
};

/// The same of work: nobody counts for more requests, nor for more tokens, than the caps.
class CappedWork {
 public:
  void add(const Work& work) {
    if (work.requests > 0) requests_.add(static_cast<double>(work.requests), static_cast<double>(work.requests));
    if (work.tokens > 0) tokens_.add(static_cast<double>(work.tokens), static_cast<double>(work.tokens));
  }
  void remove(const Work& work) {
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

// This counts how many prompt tokens a pool finished per second over the last 30 s; a Retry-After is computed from it.
// It has thirty buckets of one second. A Pool owns it and calls it under its mutex.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "balancer/tokens.hpp"

namespace weir::balancer {

class FinishedTokens {
 public:
  void add(Tokens tokens, Moment now) {
    const std::int64_t second = second_of(now);
    Bucket& bucket = buckets_[static_cast<std::size_t>(second) % buckets_.size()];
    if (bucket.second != second) bucket = {second, 0};
    bucket.tokens += tokens;
  }

  double per_second(Moment now) const {
    const std::int64_t since = second_of(now) - static_cast<std::int64_t>(buckets_.size());
    double sum = 0;
    for (const Bucket& bucket : buckets_) {
      if (bucket.second > since) sum += static_cast<double>(bucket.tokens);
    }
    return sum / static_cast<double>(buckets_.size());
  }

  /// Returns the whole seconds until `waiting` tokens are done, within 1 to 60; 5 if nothing was finished.
  unsigned retry_after(Tokens waiting, Moment now) const {
    const double rate = per_second(now);
    if (rate <= 0) return 5;
    return static_cast<unsigned>(std::clamp(std::ceil(static_cast<double>(waiting) / rate), 1.0, 60.0));
  }

 private:
  struct Bucket {
    std::int64_t second = 0;
    Tokens tokens = 0;
  };
  static std::int64_t second_of(Moment now) {
    return std::chrono::floor<std::chrono::seconds>(now.time_since_epoch()).count();
  }

  std::array<Bucket, 30> buckets_{};
};

}  // namespace weir::balancer

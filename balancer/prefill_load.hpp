// The share of time in which the replicas of a pool have prompts to compute, over the last half minute or so. A Pool
// owns it and calls it under its mutex.
#pragma once

#include <algorithm>
#include <cmath>

#include "balancer/tokens.hpp"

namespace weir::balancer {

class PrefillLoad {
 public:
  static constexpr double memory_seconds = 30;

  /// At this moment so much of the replicas, 0 to 1, has prompts to compute, and had since the latest call.
  void saw(double busy, Moment now) {
    const double elapsed = std::max(0.0, metrics::seconds(now - seen_));
    seen_ = std::max(seen_, now);
    share_ += (busy - share_) * (1 - std::exp(-elapsed / memory_seconds));
  }
  double share() const { return share_; }

 private:
  Moment seen_{};
  double share_ = 0;
};

}  // namespace weir::balancer

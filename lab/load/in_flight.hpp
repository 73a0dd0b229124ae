// Counts the requests in flight, and their mean while one of them ran.
#pragma once

#include <cstdint>

#include "metrics/moment.hpp"

namespace weir::lab::load {

class InFlight {
 public:
  /// A request as it was when it began.
  struct Begun {
    metrics::Moment at{};
    double area = 0;
    std::uint64_t others = 0;  ///< Requests in flight already.
  };

  Begun begin(metrics::Moment now) {
    advance(now);
    return {now, area_, count_++};
  }

  /// Returns the mean number in flight since `begun`, that request included.
  double end(const Begun& begun, metrics::Moment now) {
    advance(now);
    --count_;
    const double lasted = metrics::seconds(now - begun.at);
    return lasted > 0 ? (area_ - begun.area) / lasted : static_cast<double>(begun.others + 1);
  }

 private:
  void advance(metrics::Moment now) {
    area_ += static_cast<double>(count_) * metrics::seconds(now - last_);
    last_ = now;
  }

  std::uint64_t count_ = 0;
  double area_ = 0;  ///< The integral of the count over time, in seconds.
  metrics::Moment last_{};
};

}  // namespace weir::lab::load

// Counts of the last minute, second by second, and what they are made from. Plain values without a clock.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace weir::proxy::live {

/// The counts of the last 60 whole seconds. 250 bytes.
class Minute {
 public:
  static constexpr std::size_t seconds = 60;
  /// Means are those of so many seconds.
  static constexpr std::size_t mean_of = 10;

  /// Counts in the second that is under way.
  void add(double n) { now_ += static_cast<float>(n); }
  /// Ends that second. `lasted` is above 1 where the caller came late: the seconds before the last one were empty then.
  void end_second(std::size_t lasted = 1) {
    for (std::size_t i = 1; i < std::min(lasted, seconds); ++i) push(0);
    push(now_);
    now_ = 0;
  }
  /// Returns the count of the last whole second.
  double last() const { return counts_[(next_ + seconds - 1) % seconds]; }
  double sum() const { return sum_of(seconds); }
  /// Returns the count of the last `mean_of` whole seconds.
  double lately() const { return sum_of(mean_of); }
  /// Returns the mean of the last whole seconds; of those that there were, in the first ones.
  double per_second() const {
    return known_ == 0 ? 0 : lately() / static_cast<double>(std::min(known_, mean_of));
  }
  bool empty() const { return now_ == 0 && sum() == 0; }

 private:
  void push(float count) {
    counts_[next_] = count;
    next_ = (next_ + 1) % seconds;
    known_ = std::min(known_ + 1, seconds);
  }
  double sum_of(std::size_t last) const {
    double sum = 0;
    for (std::size_t i = 1; i <= last; ++i) sum += counts_[(next_ + seconds - i) % seconds];
    return sum;
  }

  std::array<float, seconds> counts_{};
  std::size_t next_ = 0, known_ = 0;
  float now_ = 0;
};

/// By how much a counter has grown since the last look. The first look returns 0, and so does one that finds it
/// smaller.
class Growth {
 public:
  double of(double value) {
    const double grown = before_ ? std::max(0.0, value - *before_) : 0.0;
    before_ = value;
    return grown;
  }

 private:
  std::optional<double> before_;
};

/// Returns the part as a share of all, at most 1; nothing without any.
inline std::optional<double> share_of(double part, double all) {
  return all > 0 ? std::optional(std::min(1.0, part / all)) : std::nullopt;
}

}  // namespace weir::proxy::live

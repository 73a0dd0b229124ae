// How many bytes a peer has moved lately: a sliding window over a body that a client sends, or an answer that it takes.
//
// The window slides in steps of an eighth of its length, and only whole steps are judged. So a peer that moves at least
// `rate` in every stretch of a window's length is never behind. One that stays below is found behind within a window
// and a step, whatever it moved before: nothing is earned in advance. No clock is read, no memory taken, and a call
// costs a few stores. One thread uses it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "metrics/moment.hpp"

namespace weir::proxy::net {

class RateWindow {
 public:
  static constexpr std::size_t steps = 8;

  /// Begins anew. Nothing is judged before `length` has passed.
  void begin(metrics::Moment now, metrics::Nanoseconds length) {
    moved_.fill(0);
    step_ = std::max(length / static_cast<int>(steps), metrics::Nanoseconds(1));
    step_began_ = now;
    judged_from_ = now + step_ * static_cast<int>(steps);
  }

  void add(metrics::Moment now, std::size_t bytes) {
    if (now - step_began_ >= step_) slide(now);
    moved_[current_] += bytes;
  }

  /// Returns since when the peer is behind `rate` bytes a second, as of the last call of add(); else when it will be if
  /// it moves no more. A rate of 0 is always kept up.
  metrics::Moment behind_at(std::size_t rate) const {
    if (rate == 0) return metrics::Moment::max();
    const std::chrono::duration<double> length(step_ * static_cast<int>(steps));
    const auto owed = static_cast<double>(rate) * length.count();
    // The window slides on step by step. At first it holds all but the current step.
    auto in_window = total() - moved_[current_];
    if (step_began_ >= judged_from_ && static_cast<double>(in_window) < owed) return step_began_;
    in_window += moved_[current_];
    auto at = step_began_;
    auto oldest = next(current_);
    do {
      in_window -= moved_[oldest];
      oldest = next(oldest);
      at += step_;
    } while (static_cast<double>(in_window) >= owed);
    return std::max(at, judged_from_);
  }

  /// Returns the bytes of the current step and the one before.
  std::uint64_t recent(metrics::Moment now) {
    add(now, 0);
    return moved_[current_] + moved_[(current_ + steps) % moved_.size()];
  }

 private:
  std::size_t next(std::size_t step) const { return (step + 1) % moved_.size(); }
  std::uint64_t total() const { return std::accumulate(moved_.begin(), moved_.end(), std::uint64_t{0}); }

  void slide(metrics::Moment now) {
    auto passed = static_cast<std::uint64_t>((now - step_began_) / step_);
    step_began_ += step_ * static_cast<metrics::Nanoseconds::rep>(passed);
    for (passed = std::min<std::uint64_t>(passed, moved_.size()); passed > 0; --passed) {
      current_ = next(current_);
      moved_[current_] = 0;
    }
  }

  std::array<std::uint64_t, steps + 1> moved_{};  ///< By step, in a ring; the oldest is behind the current.
  std::size_t current_ = 0;
  metrics::Nanoseconds step_{1};
  metrics::Moment step_began_{}, judged_from_{};
};

}  // namespace weir::proxy::net

// Counters and exact histograms with one writer and any number of readers. An observation takes about 20 ns
// (docs/benchmarks.md) and no lock.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "config/settings.hpp"

namespace weir::metrics::series {

/// A number that only grows. One thread adds and any thread reads. A reader of a count also sees what its writer had
/// stored before (on x86 at no cost).
class Counter {
 public:
  void add(std::uint64_t n = 1) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_release); }
  std::uint64_t value() const { return value_.load(std::memory_order_acquire); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// A counter for each value of an enum; `size` says how many it has. An index without a type serves those who count
/// all.
template <class Enum, std::size_t size>
struct Counters : std::array<Counter, size> {
  void add(Enum which, std::uint64_t n = 1) { (*this)[static_cast<std::size_t>(which)].add(n); }
  std::uint64_t value(Enum which) const { return (*this)[static_cast<std::size_t>(which)].value(); }
};

/// Exact counts for the exported `le` bounds, in integers of the histogram's unit (nanoseconds, tokens, thousandths).
/// An observation equal to a bound belongs to that bound's bucket, as Prometheus defines `le`. `bounds` must be
/// ascending and outlive the histogram. One thread observes and any thread reads.
class Histogram {
 public:
  explicit Histogram(std::span<const std::uint64_t> bounds)
      : bounds_(bounds), buckets_(std::make_unique<std::atomic<std::uint64_t>[]>(bounds.size() + 1)) {}

  void observe(std::uint64_t value, std::uint64_t count = 1) { observe_about(value, count, value * count); }
  /// Adds `count` observations of about `value`, and `sum` to the sum.
  void observe_about(std::uint64_t value, std::uint64_t count, std::uint64_t sum) {
    const auto at = static_cast<std::size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin());
    bump(buckets_[at], count);
    bump(sum_, sum);
  }

  /// Goes on with other bounds. A bucket's count moves to the new bucket that has its upper bound, so that what is
  /// counted from now on is exact, and no count falls. Only the writer may call it, and no reader meanwhile.
  void rebound(std::span<const std::uint64_t> bounds) {
    auto buckets = std::make_unique<std::atomic<std::uint64_t>[]>(bounds.size() + 1);
    for (std::size_t i = 0; i <= bounds_.size(); ++i) bump(buckets[place(bounds, i)], bucket(i));
    bounds_ = bounds;
    buckets_ = std::move(buckets);
  }

  /// Returns the bucket among `bounds` that has the upper bound of bucket `at`.
  std::size_t place(std::span<const std::uint64_t> bounds, std::size_t at) const {
    if (at == bounds_.size()) return bounds.size();
    return static_cast<std::size_t>(std::lower_bound(bounds.begin(), bounds.end(), bounds_[at]) - bounds.begin());
  }

  std::span<const std::uint64_t> bounds() const { return bounds_; }
  /// Returns the observations in bucket `at` alone (not cumulative). `at == bounds().size()` is the bucket above every
  /// bound.
  std::uint64_t bucket(std::size_t at) const { return buckets_[at].load(std::memory_order_relaxed); }
  std::uint64_t sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  static void bump(std::atomic<std::uint64_t>& a, std::uint64_t n) {
    a.store(a.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }

  std::span<const std::uint64_t> bounds_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> buckets_;
  std::atomic<std::uint64_t> sum_{0};
};

// The exported bucket bounds (docs/reference/metrics.md) are integers: nanoseconds, tokens or thousandths, in ascending
// order.
//
// The bounds are constant-initialised, so that a histogram of static storage may use them.

extern const std::span<const std::uint64_t> latency_bounds;    ///< TTFT and queue, in ns.
extern const std::span<const std::uint64_t> per_token_bounds;  ///< ITL, ICL and TPOT, in ns.
extern const std::span<const std::uint64_t> duration_bounds;   ///< Whole requests, in ns.
extern const std::span<const std::uint64_t> overhead_bounds;   ///< The latency that weir adds to a token, in ns.
extern const std::span<const std::uint64_t> size_bounds;       ///< Tokens.
extern const std::span<const std::uint64_t> ratio_bounds;      ///< Thousandths.
/// Thousandths of a token per second. In whole tokens the sum, and so the mean of slow streams, would be wrong.
extern const std::span<const std::uint64_t> speed_bounds;

extern const std::span<const std::uint64_t> loop_delay_bounds;  ///< The lateness of a loop's tick, in ns.

/// The bounds of the histograms that objectives use: the bounds above and the objectives' thresholds, so that
/// attainment can be read from a bucket. All replicas of all pools share one set, or `sum by (le)` would add unlike
/// buckets.
struct Bounds {
  explicit Bounds(std::span<const config::Slo> slos = {});
  std::vector<std::uint64_t> latency, per_token, duration;
};

/// The objectives of requests, and the bounds that follow from them. The object never changes; a reload makes another.
struct Objectives {
  explicit Objectives(std::vector<config::Slo> all = {}) : slos(std::move(all)), bounds(slos) {}
  std::vector<config::Slo> slos;
  Bounds bounds;
};

}  // namespace weir::metrics::series

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

}  // namespace weir::metrics::series

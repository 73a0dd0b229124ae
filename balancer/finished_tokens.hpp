// FinishedTokens counts the prompt tokens that a pool finished in the last 30 s.
//
// How fast a queue drains shows only while one is there: before, replicas may have had nothing to do. So the drain rate
// is the tokens finished per second in which requests waited, known after one such second.
//
// The drain rate is too low where a replica rests for a second, is granted the whole queue at its end, and finishes it
// while nobody waits. So the highest drain rate counts the tokens of requests that have waited, whenever they are
// finished. It is too high where requests wait for moments only: a request may be refused by it, and is told no time by
// it. All that was finished in some seconds is the demand, and says nothing of what the replicas can do but for the
// best of these seconds, which they can do at least.
//
// A Pool owns it and calls it under its mutex. It has a bucket a second.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "balancer/tokens.hpp"

namespace weir::balancer {

class FinishedTokens {
 public:
  static constexpr double known_after_seconds = 1;

  /// Time passed since the last call, and requests waited in it or not.
  void pass(Moment now, bool waiting) {
    waiting_ = waiting;
    if (waiting) {
      const std::int64_t last = second_of(now);
      std::int64_t second = std::max(second_of(passed_), last - length + 1);
      Moment from = std::max(passed_, start_of(second));
      for (; second < last; ++second, from = start_of(second))
        bucket(second).waited += metrics::seconds(start_of(second + 1) - from);
      bucket(last).waited += metrics::seconds(now - from);
    }
    passed_ = now;
  }

  /// `waited`: the request of these tokens stood in the queue.
  void add(Tokens tokens, Moment now, bool waited) {
    Bucket& now_bucket = bucket(second_of(now));
    now_bucket.tokens += tokens;
    if (waiting_) now_bucket.while_waiting += tokens;
    if (waiting_ || waited) now_bucket.at_most += tokens;
  }

  /// Returns the tokens that were finished in the best second; 0 if none were.
  double best_second(Moment now) const {
    Tokens best = 0;
    for (const Bucket& one : buckets_)
      if (one.second > second_of(now) - length) best = std::max(best, one.tokens);
    return static_cast<double>(best);
  }

  /// Returns the tokens that are finished per second while requests wait; nothing while that is unknown.
  std::optional<double> drain_rate(Moment now) const { return rate(now, &Bucket::while_waiting); }
  /// The highest that it may be.
  std::optional<double> highest_drain_rate(Moment now) const { return rate(now, &Bucket::at_most); }

 private:
  static constexpr std::int64_t length = 30;

  struct Bucket {
    std::int64_t second = 0;
    Tokens tokens = 0, while_waiting = 0, at_most = 0;
    double waited = 0;
  };

  std::optional<double> rate(Moment now, Tokens Bucket::* what) const {
    double tokens = 0, seconds = 0;
    for (const Bucket& one : buckets_) {
      if (one.second <= second_of(now) - length) continue;
      tokens += static_cast<double>(one.*what);
      seconds += one.waited;
    }
    if (seconds < known_after_seconds || tokens <= 0) return std::nullopt;
    return tokens / seconds;
  }

  Bucket& bucket(std::int64_t second) {
    Bucket& found = buckets_[static_cast<std::size_t>(second) % buckets_.size()];
    if (found.second != second) found = {second};
    return found;
  }
  static std::int64_t second_of(Moment now) {
    return std::chrono::floor<std::chrono::seconds>(now.time_since_epoch()).count();
  }
  static Moment start_of(std::int64_t second) { return Moment{} + std::chrono::seconds(second); }

  std::array<Bucket, length> buckets_{};
  Moment passed_{};
  bool waiting_ = false;
};

}  // namespace weir::balancer

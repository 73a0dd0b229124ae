// This counts the prompt tokens that a pool finished in the last 30 s, and says from them how long tokens wait.
//
// How fast a queue drains shows only while one is there: before, replicas may have had nothing to do. So the drain rate
// is the tokens finished per second in which requests waited, known after one such second. A Retry-After falls back on
// all of the 30 s.
//
// Requests that were refused come back when they were told to. Until then their tokens count as waiting, so that those
// who are refused later come back later.
//
// A Pool owns it and calls it under its mutex. It has a bucket a second.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
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

  void add(Tokens tokens, Moment now) {
    Bucket& now_bucket = bucket(second_of(now));
    now_bucket.tokens += tokens;
    if (waiting_) now_bucket.while_waiting += tokens;
  }

  double per_second(Moment now) const {
    double sum = 0;
    for (const Bucket& one : buckets_)
      if (one.second > second_of(now) - length) sum += static_cast<double>(one.tokens);
    return sum / static_cast<double>(length);
  }

  /// Returns the tokens that are finished per second while requests wait; nothing while that is unknown.
  std::optional<double> drain_rate(Moment now) const {
    double tokens = 0, seconds = 0;
    for (const Bucket& one : buckets_) {
      if (one.second <= second_of(now) - length) continue;
      tokens += static_cast<double>(one.while_waiting);
      seconds += one.waited;
    }
    if (seconds < known_after_seconds || tokens <= 0) return std::nullopt;
    return tokens / seconds;
  }

  /// Returns the whole seconds until `waiting` tokens, those of a request that is refused among them, are done, within
  /// 1 to 60; 5 if nothing was finished. The refused `tokens` are taken to come back then.
  unsigned retry_after(Tokens waiting, Tokens tokens, Moment now) {
    const std::int64_t second = second_of(now);
    for (const Return& one : returns_)
      if (one.second > second) waiting += one.tokens;
    const double rate = drain_rate(now).value_or(per_second(now));
    const double wait = rate > 0 ? std::ceil(static_cast<double>(waiting) / rate) : 5;
    const auto told = static_cast<unsigned>(std::clamp(wait, 1.0, static_cast<double>(longest_wait)));
    Return& back = returns_[static_cast<std::size_t>(second + told) % returns_.size()];
    if (back.second != second + told) back = {second + told, 0};
    back.tokens += tokens;
    return told;
  }

 private:
  static constexpr std::int64_t length = 30;
  static constexpr std::int64_t longest_wait = 60;

  struct Bucket {
    std::int64_t second = 0;
    Tokens tokens = 0, while_waiting = 0;
    double waited = 0;
  };
  struct Return {
    std::int64_t second = 0;
    Tokens tokens = 0;
  };

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
  std::array<Return, longest_wait + 1> returns_{};
  Moment passed_{};
  bool waiting_ = false;
};

}  // namespace weir::balancer

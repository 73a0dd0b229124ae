// Limits how many retries may run at a time: a share of the requests in flight, and at least three.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "metrics/moment.hpp"

namespace weir::balancer::story {

/// Any thread may use it.
class RetryBudget {
 public:
  /// A retry counts until it is given back, and for so long at most: an answer that is not streamed shows nothing until
  /// its end, and a few long ones would use the budget up.
  static constexpr std::chrono::seconds counted_for{2};
  /// A retry, until it is given back.
  using Taken = metrics::Moment;

  /// `share` is limits.retry_budget; 0 allows no retry. `in_flight` counts the requests in flight, on any thread.
  RetryBudget(double share, std::function<std::size_t()> in_flight) : share_(share), in_flight_(std::move(in_flight)) {}

  void set_share(double share) { share_.store(share, std::memory_order_relaxed); }
  std::optional<Taken> take(metrics::Moment now) {
    const auto share = share_.load(std::memory_order_relaxed);
    if (share <= 0) return std::nullopt;
    const auto allowed = static_cast<std::size_t>(share * static_cast<double>(in_flight_()));
    const std::lock_guard lock(mutex_);
    std::erase_if(begun_, [now](metrics::Moment begun) { return now - begun >= counted_for; });
    if (begun_.size() >= std::max<std::size_t>(3, allowed)) return std::nullopt;
    begun_.push_back(now);
    return now;
  }
  void give_back(Taken retry) {
    const std::lock_guard lock(mutex_);
    if (const auto found = std::ranges::find(begun_, retry); found != begun_.end()) begun_.erase(found);
  }

 private:
  std::atomic<double> share_;
  const std::function<std::size_t()> in_flight_;
  std::mutex mutex_;
  std::vector<metrics::Moment> begun_;
};

}  // namespace weir::balancer::story

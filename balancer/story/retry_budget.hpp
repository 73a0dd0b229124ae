// Limits how many retries may run at a time: a share of the requests in flight, and at least three.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <utility>

namespace weir::balancer::story {

/// Any thread may use it.
class RetryBudget {
 public:
  /// `share` is limits.retry_budget; 0 allows no retry. `in_flight` counts the requests in flight, on any thread.
  RetryBudget(double share, std::function<std::size_t()> in_flight) : share_(share), in_flight_(std::move(in_flight)) {}

  void set_share(double share) { share_.store(share, std::memory_order_relaxed); }
  bool take() {
    const auto share = share_.load(std::memory_order_relaxed);
    if (share <= 0) return false;
    const auto allowed = static_cast<std::size_t>(share * static_cast<double>(in_flight_()));
    if (under_way_.fetch_add(1, std::memory_order_relaxed) < std::max<std::size_t>(3, allowed)) return true;
    give_back();
    return false;
  }
  void give_back() { under_way_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  std::atomic<double> share_;
  const std::function<std::size_t()> in_flight_;
  std::atomic<std::size_t> under_way_{0};
};

}  // namespace weir::balancer::story

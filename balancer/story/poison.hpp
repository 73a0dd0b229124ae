// Remembers for a minute the requests that have cost two replicas: libraries send a request again that failed with 502.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "metrics/moment.hpp"

namespace weir::balancer::story {

/// Any thread may use it. While nothing is remembered, a look costs one atomic read.
class PoisonMemory {
 public:
  static constexpr std::chrono::minutes lasting{1};
  static constexpr std::size_t most = 1024;

  /// `request` is a hash of its client, topic, conversation and size.
  bool has(std::uint64_t request, metrics::Moment now) const {
    if (size_.load(std::memory_order_relaxed) == 0) return false;
    const std::lock_guard lock(mutex_);
    const auto found = until_.find(request);
    return found != until_.end() && now < found->second;
  }
  /// When the memory is full, the oldest goes.
  void note(std::uint64_t request, metrics::Moment now) {
    const std::lock_guard lock(mutex_);
    std::erase_if(until_, [now](const auto& one) { return now >= one.second; });
    if (until_.size() >= most)
      until_.erase(std::ranges::min_element(until_, {}, [](const auto& one) { return one.second; }));
    until_.insert_or_assign(request, now + lasting);
    size_.store(until_.size(), std::memory_order_relaxed);
  }
  /// A replica answered such a request: it was not the request.
  void forget(std::uint64_t request) {
    if (size_.load(std::memory_order_relaxed) == 0) return;
    const std::lock_guard lock(mutex_);
    until_.erase(request);
    size_.store(until_.size(), std::memory_order_relaxed);
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, metrics::Moment> until_;
  std::atomic<std::size_t> size_{0};
};

}  // namespace weir::balancer::story

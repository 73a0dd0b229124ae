// The part of limits.buffer_memory that one client address, or one key, holds: never all (limits.buffer_share).
//
// A share is a count that all requests of its address or key have in common. Any thread may use it.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "proxy/net/buffer_budget.hpp"
#include "proxy/net/peer_address.hpp"

namespace weir::proxy::net {

using BufferShare = std::shared_ptr<std::atomic<std::size_t>>;

/// The shares of the addresses that hold anything. To find one costs a lock and a search, so it is for requests that
/// are longer than a step of the budget.
class AddressShares {
 public:
  /// Returns the share of an address (of IPv6 the first 64 bits). These AddressShares outlive it.
  BufferShare of(const PeerAddress& address);
  std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::map<PeerAddress, std::weak_ptr<std::atomic<std::size_t>>> shares_;
};

/// A BudgetHold that counts for shares, too. One thread at a time uses it.
class SharedBudgetHold {
 public:
  SharedBudgetHold() = default;
  explicit SharedBudgetHold(BufferBudget& budget) : budget_hold_(budget) {}
  SharedBudgetHold(SharedBudgetHold&& other) noexcept = default;
  SharedBudgetHold& operator=(SharedBudgetHold&& other) noexcept {
    if (this == &other) return *this;
    set(0);
    budget_hold_ = std::move(other.budget_hold_);
    shares_ = std::move(other.shares_);
    return *this;
  }
  ~SharedBudgetHold() { set(0); }

  /// Counts for this share as well from now on.
  void join(BufferShare share) {
    share->fetch_add(reserved(), std::memory_order_relaxed);
    shares_.push_back(std::move(share));
  }
  bool has_joined() const { return !shares_.empty(); }
  /// Returns the first share that would hold more than `most` with so many bytes held here; null if all have room. Two
  /// threads that ask at the same moment may both get room.
  BufferShare full_share(std::size_t bytes, std::size_t most) const {
    const auto wanted = bytes / BufferBudget::step * BufferBudget::step;  // As BudgetHold counts.
    for (const auto& share : shares_)
      if (wanted > reserved() && share->load(std::memory_order_relaxed) - reserved() + wanted > most) return share;
    return nullptr;
  }

  // As in BudgetHold.
  void set(std::size_t bytes) {
    const auto before = reserved();
    budget_hold_.set(bytes);
    settle(before);
  }
  bool try_set(std::size_t bytes) {
    const auto before = reserved();
    if (!budget_hold_.try_set(bytes)) return false;
    settle(before);
    return true;
  }
  void less(std::size_t bytes) { set(reserved() - std::min(reserved(), bytes)); }
  std::size_t reserved() const { return budget_hold_.reserved(); }

 private:
  void settle(std::size_t before) {
    if (before == reserved()) return;
    for (const auto& share : shares_) share->fetch_add(reserved() - before, std::memory_order_relaxed);  // May wrap.
  }

  BudgetHold budget_hold_;
  std::vector<BufferShare> shares_;
};

}  // namespace weir::proxy::net

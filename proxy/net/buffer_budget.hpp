// The memory that grows with peers, counted for the whole process (limits.buffer_memory): requests while they are read
// and kept, unfinished events, read-ahead for slow clients, kept error answers, requests to be mirrored.
//
// Any thread uses a budget. A BudgetHold belongs to one thread at a time; it is moved with the memory that it counts. A
// hold counts in whole steps, rounded down, so that a token that passes through costs no atomic operation: up to a step
// of each hold is not counted, and an idle process counts zero.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>

namespace weir::proxy::net {

class BufferBudget {
 public:
  static constexpr std::size_t step = 4096;

  explicit BufferBudget(std::size_t limit) : limit_(limit) {}
  BufferBudget(const BufferBudget&) = delete;
  BufferBudget& operator=(const BufferBudget&) = delete;

  void set_limit(std::size_t bytes) { limit_.store(bytes, std::memory_order_relaxed); }
  std::size_t limit() const { return limit_.load(std::memory_order_relaxed); }
  std::size_t used() const { return used_.load(std::memory_order_relaxed); }
  /// True above three quarters: buffers that can be smaller are.
  bool tight() const { return used() > limit() / 4 * 3; }
  /// True if nothing new may begin.
  bool spent() const { return used() >= limit(); }

 private:
  friend class BudgetHold;
  void take(std::size_t bytes) { used_.fetch_add(bytes, std::memory_order_relaxed); }
  void give(std::size_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  /// Takes nothing and returns false if that would be over the limit.
  bool try_take(std::size_t bytes) {
    if (used_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= limit()) return true;
    give(bytes);
    return false;
  }

  std::atomic<std::size_t> limit_, used_{0};
};

/// A part of a budget, held for one thing.
class BudgetHold {
 public:
  BudgetHold() = default;  ///< Makes a hold that counts nothing, ever.
  explicit BudgetHold(BufferBudget& budget) : budget_(&budget) {}
  BudgetHold(BudgetHold&& other) noexcept : budget_(other.budget_), reserved_(std::exchange(other.reserved_, 0)) {}
  BudgetHold& operator=(BudgetHold&& other) noexcept {
    if (this == &other) return *this;
    set(0);
    budget_ = other.budget_;
    reserved_ = std::exchange(other.reserved_, 0);
    return *this;
  }
  ~BudgetHold() { set(0); }

  /// Sets the bytes that are held now, whether or not there is room: work that was begun is finished.
  void set(std::size_t bytes) {
    if (budget_ == nullptr) return;
    const auto wanted = steps(bytes);
    if (wanted == reserved_) return;
    if (wanted > reserved_) {
      budget_->take(wanted - reserved_);
    } else {
      budget_->give(reserved_ - wanted);
    }
    reserved_ = wanted;
  }
  /// Sets the bytes if there is room. Otherwise changes nothing and returns false.
  bool try_set(std::size_t bytes) {
    const auto wanted = steps(bytes);
    if (wanted > reserved_ && !budget_->try_take(wanted - reserved_)) return false;
    if (wanted > reserved_) reserved_ = wanted;
    set(bytes);
    return true;
  }
  /// Takes these bytes off the hold.
  void less(std::size_t bytes) { set(reserved_ - std::min(reserved_, bytes)); }
  std::size_t reserved() const { return reserved_; }

 private:
  std::size_t steps(std::size_t bytes) const {
    return budget_ == nullptr ? 0 : bytes / BufferBudget::step * BufferBudget::step;
  }

  BufferBudget* budget_ = nullptr;
  std::size_t reserved_ = 0;
};

}  // namespace weir::proxy::net

// The memory that grows with peers, counted for the whole process (limits.buffer_memory): requests while they are read
// and kept, unfinished events, read-ahead for slow clients, kept error answers, requests to be mirrored.
//
// Any thread uses a budget. A BudgetHold belongs to one thread at a time; it is moved with the memory that it counts. A
// hold counts in whole steps, rounded down, so that a token that passes through costs no atomic operation: up to a step
// of each hold is not counted, and an idle process counts zero.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include "metrics/moment.hpp"
#include "proxy/net/address.hpp"

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

// The part of limits.buffer_memory that one client address, or one key, holds: never all (limits.buffer_share).
//
// A share is a count that all requests of its address or key have in common. Any thread may use it.

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

// The requests whose bodies, or long heads, a loop is reading. Where limits.buffer_memory is spent, the slowest of them
// ends.
//
// So a client that holds memory and sends little keeps no other out. Only the loop's thread uses it.

/// A body that is being read, in the list of its loop until it goes.
class Upload : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
 public:
  /// Returns how many bytes have come lately.
  virtual std::uint64_t recent(metrics::Moment now) = 0;
  virtual std::size_t reserved() const = 0;  ///< The memory that it pays for.
  virtual bool is_head() const = 0;          ///< It is a head that is not yet whole, and no body.
  /// True while too little time has passed to call it slow.
  virtual bool is_new(metrics::Moment now) const = 0;
  /// Gives its memory back at once; its client is told why later.
  virtual void give_way() = 0;

 protected:
  ~Upload() = default;
};

class Uploads {
 public:
  void attach(Upload& upload) { list_.push_back(upload); }
  bool empty() const { return list_.empty(); }
  enum class Of : unsigned char { all, heads };
  /// Ends the slowest of those that hold memory, of two equals the one that holds more. `asker` is the upload that
  /// wants room, or null. Returns false if no other is slower than an asker that is not new. Costs a look at each.
  bool make_room(Upload* asker, metrics::Moment now, Of of = Of::all);

 private:
  boost::intrusive::list<Upload, boost::intrusive::constant_time_size<false>> list_;
};

// How many bytes a peer has moved lately: a sliding window over a body that a client sends, or an answer that it takes.
//
// The window slides in steps of an eighth of its length, and only whole steps are judged. So a peer that moves at least
// `rate` in every stretch of a window's length is never behind. One that stays below is found behind within a window
// and a step, whatever it moved before: nothing is earned in advance. No clock is read, no memory taken, and a call
// costs a few stores. One thread uses it.

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

// The debts of client addresses: CPU that their handshakes took, and wrong tokens that they sent. A debt is paid off
// with time, at a rate that the caller gives, so an account says what an address has cost lately.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "metrics/moment.hpp"
#include "proxy/net/address.hpp"

namespace weir::proxy::net {

/// Any thread may use it. A call takes a lock and costs a search among the addresses that owe anything. It is bounded:
/// accounts that are paid off are forgotten, and beyond `most` all other addresses have one in common.
class AddressAccounts {
 public:
  static constexpr std::size_t most = 16'384;

  /// Returns what an address (of IPv6 the first 64 bits) owes, with so much paid off in a second.
  double owed(const PeerAddress& address, double rate, metrics::Moment now) const {
    const std::lock_guard lock(mutex_);
    const auto found = accounts_.find(client_part(address));
    const auto others = found == accounts_.end() && accounts_.size() >= most ? accounts_.find(PeerAddress{}) : found;
    return others == accounts_.end() ? 0 : left(others->second, rate, now);
  }
  void charge(const PeerAddress& address, double amount, double rate, metrics::Moment now) {
    const std::lock_guard lock(mutex_);
    sweep(rate, now);
    const auto client = client_part(address);
    const bool fits = accounts_.size() < most || accounts_.contains(client);
    auto& account = accounts_[fits ? client : PeerAddress{}];
    account = {left(account, rate, now) + amount, now};
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return accounts_.size();
  }

 private:
  struct Account {
    double owed = 0;
    metrics::Moment at{};
  };
  /// Forgets accounts that are paid off: when there are twice as many as the last time left, and each second at the
  /// bound.
  void sweep(double rate, metrics::Moment now) {
    const bool full = accounts_.size() >= most && now - swept_ >= std::chrono::seconds(1);
    if (accounts_.size() < sweep_at_ && !full) return;
    std::erase_if(accounts_, [&](const auto& one) { return left(one.second, rate, now) == 0; });
    sweep_at_ = std::max(least_to_sweep, 2 * accounts_.size());
    swept_ = now;
  }
  static double left(const Account& account, double rate, metrics::Moment now) {
    return std::max(0.0, account.owed - rate * std::chrono::duration<double>(now - account.at).count());
  }

  static constexpr std::size_t least_to_sweep = 64;
  mutable std::mutex mutex_;
  std::map<PeerAddress, Account> accounts_;  ///< Ordered: nobody can choose addresses that share a bucket.
  std::size_t sweep_at_ = least_to_sweep;
  metrics::Moment swept_{};
};

// How many connections each client address has. Connections are counted while no limit is set, too, so that a limit
// that a reload sets counts the connections that exist.

/// Any thread may use it. A call takes a lock and costs a search among the addresses that have a connection, so it is
/// for what happens once a connection.
class AddressCounts {
 public:
  /// Counts a connection of an address until its own end. AddressCounts outlives it.
  class CountGuard {
   public:
    CountGuard() = default;
    CountGuard(CountGuard&& other) noexcept : counts_(std::exchange(other.counts_, nullptr)), client_(other.client_) {}
    CountGuard& operator=(CountGuard&& other) noexcept {
      std::swap(counts_, other.counts_);
      std::swap(client_, other.client_);
      return *this;
    }
    ~CountGuard() {
      if (counts_ != nullptr) counts_->leave(client_);
    }

   private:
    friend class AddressCounts;
    CountGuard(AddressCounts& counts, const PeerAddress& client) : counts_(&counts), client_(client) {}

    AddressCounts* counts_ = nullptr;
    PeerAddress client_{};
  };

  /// Takes a place for one more connection of this address; nothing if it has `most` of them. 0 means any number. An
  /// address that is not known has no number: it always gets a place.
  std::optional<CountGuard> take(const PeerAddress& address, std::size_t most);
  /// How many addresses have a connection.
  std::size_t size() const;

 private:
  void leave(const PeerAddress& client);

  mutable std::mutex mutex_;
  std::map<PeerAddress, std::size_t> counts_;  ///< An ordered map: nobody can choose addresses that share a bucket.
};

}  // namespace weir::proxy::net

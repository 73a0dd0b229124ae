// How many connections each client address has. Connections are counted while no limit is set, too, so that a limit
// that a reload sets counts the connections that exist.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "proxy/net/peer_address.hpp"

namespace weir::proxy::net {

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

// The replicas of a pool, each at its place. A replica that the settings no longer name stays until its last lease has
// ended; then its place is free. A Pool owns the set and calls it under its mutex.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "balancer/pool_replica.hpp"
#include "balancer/replica_spec.hpp"
#include "balancer/tokens.hpp"

namespace weir::balancer {

class ReplicaSet {
  using Places = std::vector<std::unique_ptr<PoolReplica>>;

  /// The wanted ones of the replicas that are there. (std::views would do, but clang-tidy of Debian 12 cannot read it.)
  template <class Wanted>
  class View {
   public:
    class Iterator {
     public:
      using value_type = PoolReplica;
      using difference_type = std::ptrdiff_t;

      Iterator() = default;
      Iterator(const View& view, Places::const_iterator at) : view_(&view), at_(at) { skip(); }
      PoolReplica& operator*() const { return **at_; }
      PoolReplica* operator->() const { return at_->get(); }
      Iterator& operator++() {
        ++at_;
        skip();
        return *this;
      }
      Iterator operator++(int) {
        auto before = *this;
        ++*this;
        return before;
      }
      bool operator==(const Iterator& other) const { return at_ == other.at_; }

     private:
      void skip() {
        while (at_ != view_->places_.end() && (!*at_ || !view_->wanted_(**at_))) ++at_;
      }

      const View* view_ = nullptr;
      Places::const_iterator at_{};
    };

    View(const Places& places, Wanted wanted) : places_(places), wanted_(std::move(wanted)) {}
    Iterator begin() const { return {*this, places_.begin()}; }
    Iterator end() const { return {*this, places_.end()}; }

   private:
    const Places& places_;
    const Wanted wanted_;
  };

 public:
  /// Makes these the named replicas. Returns the index of each spec, in order.
  std::vector<ReplicaIndex> set(std::span<const ReplicaSpec> specs, Moment now);
  /// Frees the place of a replica that is no longer named and that no lease points into.
  void drop_if_gone(ReplicaIndex index);

  /// Returns null for a replica that is gone.
  PoolReplica* find(const ReplicaKey& key) const;
  /// The replica at a place that a lease or a view names.
  PoolReplica& operator[](ReplicaIndex index) const { return *replicas_[index]; }
  /// Returns how many places there are, free ones included.
  std::size_t places() const { return replicas_.size(); }
  /// Returns the key of the replica at this place; a serial of 0 if the place is free.
  ReplicaKey key_at(ReplicaIndex index) const;

  auto all() const {
    return View(replicas_, [](const PoolReplica&) { return true; });
  }
  auto named() const {
    return View(replicas_, [](const PoolReplica& replica) { return !replica.removed; });
  }
  auto peers_of(const PoolReplica& one) const {
    return View(replicas_, [&one](const PoolReplica& replica) {
      return !replica.removed && &replica != &one && !replica.health.out();
    });
  }

  /// True if the pool can spare one more. Nobody is ejected of its last half, whether the others are out or asleep.
  bool may_eject() const;
  /// True if a replica that hangs may be called so. The replica is ill for sure, and yet those that are in must be able
  /// to take its requests, so a lone one keeps them. A replica that is out, or takes no more requests, takes nothing
  /// from the pool: any other that is in will do.
  bool may_call_hung(const PoolReplica& replica) const;
  /// True if more than half of a replica's last answers on a topic are 4xx, at least as many peers answer as replicas
  /// refuse like that, and fewer than a quarter of their answers are 4xx; there are at least so many of either. A wrong
  /// model, which answers in 2 ms, would draw all traffic; but a client whose requests are wrong may have come to it
  /// alone. Topic 0: on all.
  bool is_odd(const PoolReplica& suspect, Topic topic, std::uint32_t enough, Moment now) const;
  /// True if all refuse connections, are down, or take nothing new.
  bool none_up() const;
  /// True if a replica other than these takes new requests and connections.
  bool another_is_left(std::span<const Serial> tried, Serial beside) const;

 private:
  ReplicaIndex index_of(const ReplicaSpec& spec, Moment now);

  Places replicas_;  ///< By ReplicaIndex. Null is a free place.
  Serial serials_ = 0;
  std::size_t first_set_ = 0;  ///< The pool began with so many replicas.
};

}  // namespace weir::balancer

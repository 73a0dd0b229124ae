// The replicas of a pool, each at its place. A replica that the settings no longer name stays until its last lease has
// ended; then its place is free. A Pool owns the set and calls it under its mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "balancer/evidence.hpp"
#include "balancer/health.hpp"
#include "balancer/models.hpp"
#include "balancer/placement.hpp"
#include "balancer/replica_time.hpp"
#include "balancer/replica_view.hpp"
#include "balancer/token_ledger.hpp"
#include "balancer/tokens.hpp"
#include "metrics/vocabulary.hpp"

namespace weir::balancer {

/// A request that went to a busy replica though this one was idle, and the seconds by which they were compared.
struct PassedOver {
  Moment at{};
  ReplicaKey chosen;
  double first_token = 0, first_token_there = 0;  ///< Expected here, and at the chosen one.
  double waste = 0;                               ///< What it would have cost beside that to serve it here.
  bool weighs_less = false;                       ///< Than the chosen one, by the settings.
};

/// The size of an engine's batch, as far as the engine was seen to keep prompts waiting though it had nothing else to
/// compute. An engine that computes what it was believed to have in its cache looks the same once, but not twice with
/// as many requests that run.
class BatchSlots {
 public:
  /// Returns the size, if it was seen within the last minute.
  std::optional<std::uint32_t> at(Moment now) const;
  /// A first token is about to come, as of the ledger's latest time.
  void look(const TokenLedger& ledger, const ReplicaTime& times, Moment now);

 private:
  std::optional<std::uint32_t> slots_;
  Moment seen_{};
  std::uint32_t suspected_ = 0;
};

/// Counts the choices that lacked something the policy needs.
struct Fallbacks {
  std::uint64_t kv_full = 0, unknown_prompt = 0, panic = 0;
};

struct PoolReplica {
  PoolReplica(const ReplicaSpec& wanted, const ReplicaKey& place, bool known, Moment now)
      : spec(wanted),
        key(place),
        identity(metrics::hash_of_name(wanted.url.empty() ? wanted.name : wanted.url)),
        ledger(now),
        health(wanted.health, known, now),
        left(now) {}

  /// True if requests that come may go to it, as far as the settings say.
  bool takes_new() const { return !removed && !spec.draining && !closed; }
  /// True if requests that come may go to it, as far as its health and its engine say, too.
  bool is_in() const { return takes_new() && !health.out() && !told.asleep; }

  std::optional<Tokens> kv_tokens() const { return spec.kv_tokens ? spec.kv_tokens : told.kv_tokens; }
  std::optional<Tokens> context() const { return spec.max_context ? spec.max_context : told.max_context; }
  /// Returns the longest prompt that goes there; nothing where the engine is to judge.
  std::optional<Tokens> longest_prompt() const;
  /// Returns how many prompt tokens the replica may hold while it starts; one request it may hold in any case.
  Tokens allowance() const;
  /// Returns its gauges as of the ledger's latest time.
  ReplicaView view(Moment now);

  ReplicaSpec spec;
  EngineLimits told;
  ListedModels models;
  RecentModels recent_models;
  FirstTokens first_tokens;
  const ReplicaKey key;
  const std::uint64_t identity;  ///< Hash of its url: the same after a reload or restart, and in all pools.
  TokenLedger ledger;
  ReplicaTime time{std::make_shared<StepTimes>()};
  BatchSlots slots;
  Health health;
  Evidence evidence;
  Suspicion suspicion;
  Moment lost_at = Moment::min();          ///< A request was last lost at work there.
  bool removed = false;                    ///< The settings no longer name it.
  bool closed = false;                     ///< Belongs to a candidate that gets no request.
  Moment left;                             ///< Since when it has been removed or draining.
  std::optional<WaitTicket> reserved_for;  ///< No other request may go there.
  PassedOver passed_over;
  Fallbacks fallbacks;
};

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

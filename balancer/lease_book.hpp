// The leases of a pool, and what it learns from them. The policy chooses among a request's candidates, and a lease is
// taken in the same critical section; its first token and its end teach the estimates, the rates and the health.
// A Pool owns it and calls it under its mutex.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "balancer/eligibility.hpp"
#include "balancer/expected_output.hpp"
#include "balancer/if_memory_allows.hpp"
#include "balancer/lease.hpp"
#include "balancer/policy/least_queued_tokens.hpp"
#include "balancer/policy/policy.hpp"
#include "balancer/pool_state.hpp"
#include "balancer/replica_view.hpp"
#include "balancer/starts.hpp"
#include "balancer/token_estimator.hpp"

namespace weir::balancer {

class LeaseBook {
 public:
  /// `owner` is the owner of all leases. `seed` feeds ties and the random policies.
  LeaseBook(PoolState& pool, Starts& starts, LeaseOwner& owner,
            std::uint64_t seed)
      : pool_(pool), starts_(starts), owner_(owner), random_(seed) {}

  void set_policy(config::Policy policy);

  /// Sets the prompt of a request, and what it may come to, as estimated from its facts.
  void estimate(WaitingRequest& request) const;
  /// Returns what the expected output of a request costs beside its prompt.
  Tokens output_cost(const metrics::wire::RequestFacts& facts) const;
  /// Chooses one of the candidates and takes the lease. Throws std::bad_alloc, and has taken none then.
  Lease take(const WaitingRequest& request, const Narrowed& narrowed, std::span<const ReplicaView> candidates);

  // The lease calls these through its owner. They do not fail: what cannot be learned for want of memory is not.
  Tokens first_token(const LedgerEntry& entry) noexcept;
  void leave_unread(const LedgerEntry& entry, bool unread) noexcept;
  Concurrency end(const LedgerEntry& entry, const LeaseEnd& end) noexcept;

 private:
  void note_cached(WaitingRequest& request) const;
  std::unique_ptr<PrefixChoice> note_sent(const WaitingRequest& request, const ReplicaView& chosen,
                                          std::span<const ReplicaView> candidates);
  void note_model(LedgerEntry& entry, const WaitingRequest& request, PoolReplica& replica, const ReplicaView& chosen);
  bool shows_pace(const LedgerEntry& entry, double seconds) const;
  void note_slots(PoolReplica& replica);
  void prompt_finished(PoolReplica& replica, const LedgerEntry& entry, Tokens uncached);
  void learn(PoolReplica& replica, const LedgerEntry& entry, const LeaseEnd& end, const TokenLedger::Closed& closed);

  PoolState& pool_;
  Starts& starts_;
  LeaseOwner& owner_;
  policy::Random random_;
  std::unique_ptr<policy::Policy> policy_;
  TokenEstimator estimator_;
  ExpectedOutput expected_output_;
  TokenLedger::Ticket tickets_ = 0;
};

}  // namespace weir::balancer

// The serving of a pool's queue: requests wait, are granted what has become free in the order of their turns, and are
// refused where their turn would come too late or the queue is full. A Pool owns it and calls it under its mutex.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "balancer/candidates.hpp"
#include "balancer/if_memory_allows.hpp"
#include "balancer/lease_book.hpp"
#include "balancer/pending_grants.hpp"
#include "balancer/pool_state.hpp"
#include "balancer/reservations.hpp"

namespace weir::balancer {

class QueueServer {
 public:
  QueueServer(PoolState& pool, Candidates& candidates, LeaseBook& leases)
      : pool_(pool),
        candidates_(candidates),
        leases_(leases),
        reservations_(pool, candidates) {}

  /// Puts the request into the queue and serves that. The request may have been granted then, or be refused. Throws
  /// std::bad_alloc, and the request does not wait then.
  Offered wait(WaitingRequest request, PendingGrants& grants);
  /// Grants as much as there is room for. Where memory fails, the others wait for the next call.
  void serve(PendingGrants& grants) noexcept;
  /// Pushes out what is beyond the limits. Where memory fails, the next call does the rest.
  void bound(PendingGrants& grants) noexcept;
  /// Notes at which lengths, and for which models, the replicas that may take a request become other ones, and has the
  /// queue tell its requests apart by that. Throws std::bad_alloc, and nothing has changed then.
  void note_fits();

 private:
  /// The lengths at which the replicas that may take a request become other ones. A number for each model that is
  /// listed, the same for those that the same replicas list; none where all list the same.
  struct Bounds {
    std::set<Tokens> contexts, longest_prompts;
    std::map<ModelId, std::size_t> listed;
    std::vector<std::pair<std::uint64_t, double>> replicas;  ///< Identities and weights.
    std::uint64_t first_two(std::uint64_t name) const;
    WaitingRequest::Fit fit_of(const WaitingRequest& request) const;
  };
  bool comes_too_late(const WaitingRequest& request) const;
  bool serve_next(PendingGrants& grants);
  bool serve_reserved(PendingGrants& grants);
  bool serve_reserved(const std::optional<WaitTicket>& reserved_for, PendingGrants& grants);

  PoolState& pool_;
  Candidates& candidates_;
  LeaseBook& leases_;
  Reservations reservations_;
  Bounds bounds_;  ///< The replicas', see note_fits().
};

}  // namespace weir::balancer

// The replicas that may take a request now. A look takes the gauges of all named replicas; each request then finds its
// candidates among them (eligibility.hpp), as far as nothing is reserved for another request and the pool's own limits
// allow. A Pool owns it and calls it under its mutex.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "balancer/eligibility.hpp"
#include "balancer/pool_state.hpp"
#include "balancer/replica_view.hpp"

namespace weir::balancer {

class Candidates {
 public:
  explicit Candidates(PoolState& pool) : pool_(pool) {}

  /// Brings the views of all named replicas up to date, but for a candidate's that gets no request. With `for_queue` a
  /// replica on which a lease has just failed looks full: see Evidence::Advice.
  void look(bool for_queue);

  /// Finds the candidates of a request. `ticket` is 0 for one that does not wait.
  Narrowed find(const WaitingRequest& request, WaitTicket ticket, bool can_wait);
  /// Finds those that may be reserved for the request: those that it would get if all that are in had nothing to do.
  /// Another one would stand idle. Returns false if there is none.
  bool find_reservable(const WaitingRequest& request, WaitTicket ticket);
  /// Returns the candidates that were found last.
  std::span<const ReplicaView> found() const { return found_; }

  /// Returns the named replicas as of the latest look, without those that a split closes.
  std::span<const ReplicaView> views() const { return views_; }
  /// True if the pool's own limits let a prompt in, as of the latest look.
  bool pool_has_room(Tokens prompt) const;
  /// True if a prompt may find room somewhere. If it is the shortest that waits, nothing has room when this is false.
  bool any_may_take(Tokens prompt) const;

 private:
  void gather_for(const WaitingRequest& request, WaitTicket ticket);
  void note_ties(const WaitingRequest& request);
  void note_lacking(const WaitingRequest& request);
  void price_waste();
  void price_switch(const WaitingRequest& request);
  Narrowed narrow_found(const WaitingRequest& request, bool can_wait);

  PoolState& pool_;
  std::vector<ReplicaView> views_, found_;
  Tokens queued_ = 0;  ///< The prefill_left of all views.
  std::uint32_t in_flight_ = 0;
  bool for_queue_ = false;
};

/// True if the request may go to a replica that was found.
constexpr bool takes(const Narrowed& narrowed) {
  return narrowed.eligibility == Eligibility::some || narrowed.eligibility == Eligibility::kv_full;
}

}  // namespace weir::balancer

// Eligibility tells which replicas may take a request at all. The rules are the same for every policy, which then
// chooses among the replicas that are left. "Prefer" means: skip the others, unless no replica would be left.
//
//  1. Prefer the home, which has the state that the request names, while the home is in and takes requests. The request
//     waits for its home. Without it the request goes anywhere, and the answer that its state is unknown is true.
//  2. Skip replicas whose settings refuse a prompt of this length. If none is left, the request is too long.
//  3. Prefer replicas that have the request's model, busy or not, if one of them is in: see ListedModels.
//  4. Prefer replicas whose context holds prompt and output. If all of these drain, sleep or are out, the context has
//     to hold the prompt: weir estimates prompts, and engines cut or refuse what is too long.
//  5. Skip replicas that sleep, if one that is awake is in. Skip replicas that drain.
//  6. Skip replicas that refuse connections.
//  7. Skip replicas without room: at a limit, full by the evidence (evidence.hpp), or starting at their allowance.
//  8. Prefer replicas that have not had this request and have room. A request rather goes back to the replica that
//     failed it than wait for a busy one.
//  9. Prefer replicas that are in; if all are out, what put them out may be wrong, and they are tried (panic).
// 10. Prefer replicas that have not failed requests like this one lately.
//     If no replica is left, the request waits.
// 11. Prefer replicas whose KV cache the request does not overfill. An idle replica takes a request of any size.
// 12. Prefer replicas that are not suspected to hang; no request waits for that.
// 13. For a session, prefer the replica that ranks first among those with at most 1.25 of their share of what is in
//     flight, and one more (Mirrokni, Thorup and Zadimoghaddam 2016).
//
// A request that cannot wait skips replicas at a limit, and prefers those that rules 6 and 7 would leave.
#pragma once

#include <cstdint>
#include <vector>

#include "balancer/replica_view.hpp"
#include "balancer/tokens.hpp"

namespace weir::balancer {

/// True if the replica may take a request that is for it alone.
constexpr bool is_there(const ReplicaView& replica) { return !replica.draining && !replica.out && !replica.refuses; }

struct Demand {
  Tokens prompt = 0;
  Tokens context = 0;   ///< Room for one sequence of the request, with an output as long as it may be.
  Tokens sequence = 0;  ///< The prompt of one sequence has surely so much.
  bool can_wait = false;
};

enum class Eligibility : std::uint8_t {
  some,
  kv_full,     ///< The request would take every replica that is left beyond its kv_tokens.
  no_replica,  ///< The pool has no replica.
  too_long,    ///< No replica can ever take it.
  busy,        ///< No replica can take it now.
};

struct Narrowed {
  Eligibility eligibility;
  bool panic = false;  ///< Every replica that is left is out. One is tried: what put them out may be wrong.
};

/// True if the request may go to a replica that is left.
constexpr bool takes(const Narrowed& narrowed) {
  return narrowed.eligibility == Eligibility::some || narrowed.eligibility == Eligibility::kv_full;
}

/// Leaves in `replicas` those that may take the request, in their order. For some and kv_full there is at least one.
Narrowed narrow(std::vector<ReplicaView>& replicas, const Demand& demand);

/// The same in a pool with a split. Only replicas of the request's own side are left if one of them is in, has room, is
/// long enough, does not lack the model and has not had the request. Otherwise, and for a request with a home, the
/// sides do not count.
Narrowed narrow_by_side(std::vector<ReplicaView>& replicas, const Demand& demand);

}  // namespace weir::balancer

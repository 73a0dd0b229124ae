// Eligibility tells which replicas may take a request at all. The rules are the same for every policy, which then
// chooses among them.
//
// A replica that lacks the request's model gives way to one that has it and is in, busy or not: see ListedModels. If
// those that have it all drain or are out, the others are tried, for a list may be old.
//
// A replica whose context is too short gives way to one whose context is long enough, busy or not: weir estimates
// prompts, and engines cut what is too long, or refuse it themselves. If those that are long enough all drain, sleep
// or are out, one that holds the prompt without its output will do. Only a prompt that alone exceeds what the
// settings say that a replica refuses never goes there. One that drains never may. One that says that it sleeps gives
// way to those that are awake and in, busy or not; if there is none, it is treated like any other. For a request that
// can wait, the rules are these, in this order. A replica that refuses connections may not. One at a limit, one that
// is full, and one that starts and holds all that it may, has no room, and may not. One that already had the request
// gives way to those that have not had it and have room: a request rather goes back to the replica that failed it
// than wait for a busy one. One that is out gives way to those that are in; if all are out, or all that have not had
// the request, what put them out may be wrong, and they are tried. One that has lately failed requests like this one
// gives way in the same way. A request that no replica may take now waits.
//
// A replica is full for a request for as long as the evidence says (evidence.hpp): because it has no room for its
// client or model, or rests after a failure.
//
// The home of a request, where the state lies that the request names, comes before all that: the request goes there, or
// waits for it, as long as the home is in and takes requests. If it does not, the request goes anywhere, and the answer
// that its state is unknown is the true one.
//
// A request that cannot wait is never sent beyond a limit, either; but if only such replicas are left as refuse, are
// full or hold all that they may while they start, it is sent to one of them.
//
// Among those that are left, a replica whose KV cache the request would overfill gives way to others (a replica that
// holds nothing takes a request of any size). Then one that is suspected to hang gives way to those that are not; no
// request waits for that. A request of a session goes to the replica that ranks first for the session, but for those
// that have more than 1.25 of their share of what is in flight, and one more (Mirrokni, Thorup and Zadimoghaddam 2016).
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

/// Leaves in `replicas` those that may take the request, in their order. For some and kv_full there is at least one.
Narrowed narrow(std::vector<ReplicaView>& replicas, const Demand& demand);

/// The same in a pool with a split. Only replicas of the request's own side are left if one of them is in, has room, is
/// long enough, does not lack the model and has not had the request. Otherwise, and for a request with a home, the
/// sides do not count.
Narrowed narrow_by_side(std::vector<ReplicaView>& replicas, const Demand& demand);

}  // namespace weir::balancer

#include "balancer/eligibility.hpp"

#include <algorithm>
#include <functional>

namespace weir::balancer {

namespace {

// Keeps the replicas that satisfy the preference and returns true. If none does, keeps all and returns false.
template <class Preference>
bool prefer(std::vector<ReplicaView>& replicas, Preference preference) {
  if (std::ranges::none_of(replicas, preference)) return false;
  std::erase_if(replicas, [&](const ReplicaView& r) { return !preference(r); });
  return true;
}

void prefer_with_model(std::vector<ReplicaView>& replicas) {
  const auto has_model = [](const ReplicaView& r) { return !r.lacks_model; };
  if (std::ranges::any_of(replicas, [&](const ReplicaView& r) { return has_model(r) && is_there(r); }))
    prefer(replicas, has_model);
}

/// Prefers the replicas that hold prompt and output. If all of these drain, sleep or are out, one that holds the prompt
/// will do, for engines cut the output; but a longer prompt than that waits for them, or goes to one that sleeps.
void prefer_long_enough(std::vector<ReplicaView>& replicas, const Demand& demand) {
  const auto holds = [](const ReplicaView& r, Tokens tokens) { return !r.max_context || tokens <= *r.max_context; };
  const auto any_in_holds = [&](Tokens tokens) {
    return std::ranges::any_of(
        replicas, [&](const ReplicaView& r) { return holds(r, tokens) && is_there(r) && !r.asleep; });
  };
  const bool prompt_alone = !any_in_holds(demand.context) && any_in_holds(demand.sequence);
  const Tokens tokens = prompt_alone ? demand.sequence : demand.context;
  prefer(replicas, [&](const ReplicaView& r) { return holds(r, tokens); });
}

/// Returns false if the request has no home, or its home is away. An ejected home may answer, and the others answer
/// 404: then the client would take its state for lost.
bool prefer_home(std::vector<ReplicaView>& replicas) {
  return prefer(replicas,
                [](const ReplicaView& r) { return r.is_home && !r.draining && !r.refuses && !(r.out && r.tried); });
}

/// Rendezvous hashing with bounded load. The least loaded replica is always within the bound.
void prefer_of_session(std::vector<ReplicaView>& replicas) {
  if (replicas.size() < 2 || replicas.front().rank == 0) return;
  constexpr double most_of_share = 1.25;
  double in_flight = 0, weights = 0;
  for (const ReplicaView& r : replicas) in_flight += r.in_flight, weights += r.weight;
  prefer(replicas, [&](const ReplicaView& r) {
    return r.in_flight <= most_of_share * in_flight * r.weight / weights + 1;
  });
  const double first = std::ranges::max(replicas, {}, &ReplicaView::rank).rank;
  prefer(replicas, [first](const ReplicaView& r) { return r.rank == first; });
}

}  // namespace

Narrowed narrow(std::vector<ReplicaView>& replicas, const Demand& demand) {
  if (replicas.empty()) return {Eligibility::no_replica};
  prefer_home(replicas);
  std::erase_if(replicas,
                [&](const ReplicaView& r) { return r.longest_prompt && demand.sequence > *r.longest_prompt; });
  if (replicas.empty()) return {Eligibility::too_long};
  prefer_with_model(replicas);
  prefer_long_enough(replicas, demand);
  if (std::ranges::any_of(replicas, [](const ReplicaView& r) { return is_there(r) && !r.asleep; }))
    std::erase_if(replicas, [](const ReplicaView& r) { return r.asleep; });
  const auto refuses = [](const ReplicaView& r) { return r.refuses; };
  const auto at_limit = [&](const ReplicaView& r) { return r.at_limit(demand.prompt); };
  const auto may_hold = [&](const ReplicaView& r) { return r.may_hold(demand.prompt); };
  const auto no_room = [&](const ReplicaView& r) { return at_limit(r) || r.full || !may_hold(r); };

  std::erase_if(replicas, [](const ReplicaView& r) { return r.draining; });
  if (demand.can_wait) {
    std::erase_if(replicas, refuses);
    const auto is_well = [](const ReplicaView& r) { return !r.out && !r.avoided; };
    const bool new_one_is_in =
        std::ranges::any_of(replicas, [&](const ReplicaView& r) { return !r.tried && is_well(r); });
    prefer(replicas, [&](const ReplicaView& r) { return !r.tried && !no_room(r) && (is_well(r) || !new_one_is_in); });
  } else {
    std::erase_if(replicas, at_limit);
    prefer(replicas, std::not_fn(refuses));
    prefer(replicas, [](const ReplicaView& r) { return !r.tried; });
  }
  if (replicas.empty()) return {Eligibility::busy};

  const bool panic = !prefer(replicas, [](const ReplicaView& r) { return !r.out; });
  prefer(replicas, [](const ReplicaView& r) { return !r.avoided; });
  if (demand.can_wait) {
    std::erase_if(replicas, no_room);
    if (replicas.empty()) return {Eligibility::busy};
  } else {
    prefer(replicas, [](const ReplicaView& r) { return !r.full; });
    prefer(replicas, may_hold);
  }
  const auto fits = [&](const ReplicaView& r) {
    return !r.kv_tokens || r.in_flight == 0 || r.resident + demand.prompt <= *r.kv_tokens;
  };
  const auto eligibility = prefer(replicas, fits) ? Eligibility::some : Eligibility::kv_full;
  prefer(replicas, [](const ReplicaView& r) { return !r.suspected; });
  prefer_of_session(replicas);
  return {eligibility, panic};
}

Narrowed narrow_by_side(std::vector<ReplicaView>& replicas, const Demand& demand) {
  const auto takes_at_once = [&](const ReplicaView& r) {
    const bool long_enough = !r.max_context || demand.context <= *r.max_context;
    const bool is_well = is_there(r) && !r.asleep && !r.lacks_model && !r.avoided && !r.full;
    return is_well && !r.tried && long_enough && !r.at_limit(demand.prompt) &&
           r.may_hold(demand.prompt) && !(r.longest_prompt && demand.sequence > *r.longest_prompt);
  };
  if (!prefer_home(replicas))
    prefer(replicas, [&](const ReplicaView& r) { return !r.other_side && takes_at_once(r); });
  return narrow(replicas, demand);
}

}  // namespace weir::balancer

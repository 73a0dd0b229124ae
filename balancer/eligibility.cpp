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

bool is_there(const ReplicaView& r) { return !r.draining && !r.refuses && !r.out; }

void prefer_with_model(std::vector<ReplicaView>& replicas) {
  const auto has_model = [](const ReplicaView& r) { return !r.lacks_model; };
  if (std::ranges::any_of(replicas, [&](const ReplicaView& r) { return has_model(r) && is_there(r); }))
    prefer(replicas, has_model);
}

/// Prefers the replicas that hold prompt and output. If all of these drain or are out, one that holds the prompt will
/// do, for engines cut the output; but a longer prompt than that waits for them.
void prefer_long_enough(std::vector<ReplicaView>& replicas, const Demand& demand) {
  const auto holds = [](const ReplicaView& r, Tokens tokens) { return !r.max_context || tokens <= *r.max_context; };
  const auto any_in_holds = [&](Tokens tokens) {
    return std::ranges::any_of(replicas, [&](const ReplicaView& r) { return holds(r, tokens) && is_there(r); });
  };
  const bool prompt_alone = !any_in_holds(demand.context) && any_in_holds(demand.sequence);
  const Tokens tokens = prompt_alone ? demand.sequence : demand.context;
  prefer(replicas, [&](const ReplicaView& r) { return holds(r, tokens); });
}

}  // namespace

Narrowed narrow(std::vector<ReplicaView>& replicas, const Demand& demand) {
  if (replicas.empty()) return {Eligibility::no_replica};
  std::erase_if(replicas,
                [&](const ReplicaView& r) { return r.longest_prompt && demand.sequence > *r.longest_prompt; });
  if (replicas.empty()) return {Eligibility::too_long};
  prefer_with_model(replicas);
  prefer_long_enough(replicas, demand);
  const auto refuses = [](const ReplicaView& r) { return r.refuses; };
  const auto at_limit = [&](const ReplicaView& r) { return r.at_limit(demand.prompt); };
  const auto may_hold = [&](const ReplicaView& r) { return r.may_hold(demand.prompt); };
  const auto no_room = [&](const ReplicaView& r) { return at_limit(r) || r.full || !may_hold(r); };

  std::erase_if(replicas, [](const ReplicaView& r) { return r.draining; });
  if (demand.can_wait) {
    std::erase_if(replicas, refuses);
    const bool new_one_is_in = std::ranges::any_of(replicas, [](const ReplicaView& r) { return !r.tried && !r.out && !r.avoided; });
    prefer(replicas, [&](const ReplicaView& r) { return !r.tried && !no_room(r) && !((r.out || r.avoided) && new_one_is_in); });
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
  return {eligibility, panic};
}

Narrowed narrow_by_side(std::vector<ReplicaView>& replicas, const Demand& demand) {
  const auto takes_at_once = [&](const ReplicaView& r) {
    const bool long_enough = !r.max_context || demand.context <= *r.max_context;
    const bool is_well = is_there(r) && !r.lacks_model && !r.avoided && !r.full;
    return is_well && !r.tried && long_enough && !r.at_limit(demand.prompt) &&
           r.may_hold(demand.prompt) && !(r.longest_prompt && demand.sequence > *r.longest_prompt);
  };
  prefer(replicas, [&](const ReplicaView& r) { return !r.other_side && takes_at_once(r); });
  return narrow(replicas, demand);
}

}  // namespace weir::balancer

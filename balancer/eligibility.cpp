#include "balancer/eligibility.hpp"

#include <algorithm>

namespace weir::balancer {

namespace {

// Keeps the replicas that satisfy the preference and returns true. If none does, keeps all and returns false.
template <class Preference>
bool prefer(std::vector<ReplicaView>& replicas, Preference preference) {
  if (std::ranges::none_of(replicas, preference)) return false;
  std::erase_if(replicas, [&](const ReplicaView& r) { return !preference(r); });
  return true;
}

}  // namespace

Narrowed narrow(std::vector<ReplicaView>& replicas, const Demand& demand) {
  if (replicas.empty()) return {Eligibility::no_replica};
  std::erase_if(replicas, [&](const ReplicaView& r) { return r.max_context && demand.context > *r.max_context; });
  if (replicas.empty()) return {Eligibility::too_long};
  // The demand is an estimate, and some engines cut what is too long. So what an engine told refuses nobody.
  prefer(replicas, [&](const ReplicaView& r) { return !r.told_context || demand.context <= *r.told_context; });
  std::erase_if(replicas, [](const ReplicaView& r) { return r.max_in_flight && r.in_flight >= *r.max_in_flight; });
  if (replicas.empty()) return {Eligibility::busy};

  prefer(replicas, [](const ReplicaView& r) { return !r.refuses; });
  prefer(replicas, [](const ReplicaView& r) { return !r.tried; });
  const bool panic = !prefer(replicas, [](const ReplicaView& r) { return !r.out; });
  prefer(replicas, [](const ReplicaView& r) { return !r.full; });
  const auto may_hold = [&](const ReplicaView& r) {
    return !r.starting || r.in_flight == 0 || r.prefill_left + demand.prompt <= r.allowance;
  };
  prefer(replicas, may_hold);
  const auto fits = [&](const ReplicaView& r) {
    return !r.kv_tokens || r.in_flight == 0 || r.resident + demand.prompt <= *r.kv_tokens;
  };
  return {prefer(replicas, fits) ? Eligibility::some : Eligibility::kv_full, panic};
}

}  // namespace weir::balancer

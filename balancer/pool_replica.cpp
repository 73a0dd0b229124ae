#include "balancer/pool_replica.hpp"

namespace weir::balancer {

/// Estimates of texts that a tokenizer packs well were seen to be 58 % above the truth. So a prompt is refused by
/// max_context only where its estimate is more than 1.6 times that.
std::optional<Tokens> PoolReplica::longest_prompt() const {
  if (!spec.max_context_refuses || !spec.max_context) return std::nullopt;
  const Tokens max_context = *spec.max_context;
  return max_context + max_context / 5 * 3 + max_context % 5 * 3 / 5;
}

Tokens PoolReplica::allowance() const { return 2 * (health.finished() + ledger.finished_unseen(health.since())); }

ReplicaView PoolReplica::view(Moment now) {
  ReplicaView view;
  view.index = key.index;
  view.weight = spec.weight;
  view.time = time.model(now);
  view.pending = ledger.pending();
  view.streaming = ledger.streaming();
  view.worked_seconds = ledger.worked_seconds();
  view.silent_seconds = ledger.silent_seconds(now);
  constexpr double slots_remembered = 60;
  if (slots && metrics::seconds(now - slots_seen) < slots_remembered) view.slots = slots;
  view.prefill_left = ledger.prefill_left();
  view.decode_left = ledger.decode_left();
  view.context = ledger.context();
  view.resident = ledger.resident();
  view.in_flight = ledger.in_flight();
  view.recent_failures = ledger.recent_failures();
  view.refuses = health.refuses();
  view.out = health.out();
  view.fresh = health.is_new(now);
  view.suspected = suspicion.is_grave();
  view.draining = spec.draining;
  view.asleep = told.asleep;
  view.full = evidence.advise({}, now).full;
  view.starting = health.state() == ReplicaState::starting;
  if (view.starting) view.allowance = allowance();
  view.kv_tokens = kv_tokens();
  view.max_context = context();
  view.longest_prompt = longest_prompt();
  view.max_in_flight = spec.max_in_flight;
  view.max_queued_tokens = spec.max_queued_tokens;
  return view;
}

}  // namespace weir::balancer

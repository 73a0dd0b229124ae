#include "balancer/pool_replica.hpp"

#include <utility>

namespace weir::balancer {

std::optional<std::uint32_t> BatchSlots::at(Moment now) const {
  constexpr double remembered = 60;
  return slots_ && metrics::seconds(now - seen_) < remembered ? slots_ : std::nullopt;
}

void BatchSlots::look(const TokenLedger& ledger, const ReplicaTime& times, Moment now) {
  const std::uint32_t running = ledger.in_flight() - ledger.pending() + 1;
  if (slots_ && running > *slots_) slots_.reset();
  if (ledger.pending() == 0 || ledger.streaming() < 4) return;
  const TimeModel time = times.model(now);
  const double step = time.step_of(ledger.streaming(), static_cast<double>(ledger.context()));
  const double prompt = time.token * static_cast<double>(ledger.prefill_left()) / ledger.pending();
  const double worked = ledger.worked_seconds(), since_end = ledger.seconds_since_end();
  const bool keeps_waiting = worked > 3 * prompt + 4 * step && since_end < 2 * prompt + 4 * step &&
                             worked - since_end > 2 * prompt + 3 * step;
  if (!keeps_waiting || std::exchange(suspected_, running) != running) return;
  slots_ = running;
  seen_ = now;
}

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
  view.slots = slots.at(now);
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

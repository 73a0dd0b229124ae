// What a pool does with the health of its replicas.
#include <algorithm>

#include "balancer/pool.hpp"

namespace weir::balancer {

/// Nobody is ejected of the last half of a pool, for whatever reason the others are out.
bool Pool::may_eject() const {
  std::size_t all = 0, out = 0;
  for (const auto& replica : replicas_) {
    if (!replica || replica->removed || replica->spec.draining) continue;
    ++all;
    if (replica->health.out()) ++out;
  }
  return 2 * (out + 1) <= all;
}

/// A replica that hangs is ill for sure, and yet those that are in must be able to take its requests. So one that is
/// alone keeps them. One that takes no more requests is no part of the pool: any that is in will do.
bool Pool::may_call_hung(const Replica& suspect) const {
  if (!suspect.removed && !suspect.spec.draining) return may_eject();
  return std::ranges::any_of(replicas_, [](const auto& replica) {
    return replica && !replica->removed && !replica->spec.draining && !replica->health.out();
  });
}

void Pool::eject_if_hung(Replica& replica) {
  const double silent = replica.ledger.silent_seconds(latest_);
  if (silent < shortest_hang_seconds || replica.health.out()) return;
  const double rate = replica.rates.prefill().value_or(slowest_prefill);
  const double due = static_cast<double>(replica.ledger.due_to_first_token()) / rate;
  if (silent < hang_factor * due || !replica.spec.health.eject || !may_call_hung(replica)) return;
  replica.health.hung(silent, due, latest_);
  replica.rates.leave_out_until(replica.ledger.pending_seconds());
  replica.ledger.forget_silence();
}

/// More than half of a replica's last answers are 4xx, and fewer than one in twenty of its peers': a wrong model, which
/// answers in 2 ms, would otherwise draw all traffic.
void Pool::eject_the_odd_one(Replica& suspect) {
  if (!suspect.answers.full() || 2 * suspect.answers.client_errors() <= suspect.answers.answers()) return;
  std::size_t answers = 0, client_errors = 0;
  for (const auto& replica : replicas_) {
    if (!replica || replica->removed || replica.get() == &suspect || replica->health.out()) continue;
    answers += replica->answers.answers();
    client_errors += replica->answers.client_errors();
  }
  if (answers < AnswerWindow::size || 20 * client_errors >= answers || !may_eject()) return;
  suspect.health.odd_one_out(latest_);
  suspect.answers.clear();
}

/// What a replica may hold while it starts, in prompt tokens; one request it may hold in any case.
Tokens Pool::allowance_of(const Replica& replica) const {
  return 2 * (replica.health.finished() + replica.ledger.finished_unseen(replica.health.since()));
}

/// A replica that starts is up once it may hold as much as its peers do in the median. One without peers is up once it
/// may hold all that is there and all that waits.
void Pool::end_starts() {
  const auto starts = [](const auto& replica) {
    return replica && !replica->removed && replica->health.state() == ReplicaState::starting;
  };
  if (std::ranges::none_of(replicas_, starts)) return;
  rates_.clear();
  for (const auto& replica : replicas_)
    if (replica && !replica->removed && replica->health.state() == ReplicaState::up)
      rates_.push_back(static_cast<double>(replica->ledger.prefill_left()));
  const bool has_peers = !rates_.empty();
  const double held_by_peers = median_of(rates_);
  for (const auto& replica : replicas_) {
    if (!starts(replica)) continue;
    const Tokens allowance = allowance_of(*replica);
    if (allowance == 0) continue;
    const Tokens wanted = replica->ledger.prefill_left() + waiting_.tokens();
    const double needed = has_peers ? held_by_peers : static_cast<double>(wanted);
    if (static_cast<double>(allowance) >= needed) replica->health.started(latest_);
  }
}

/// All refuse connections, are down, or take nothing new.
bool Pool::none_up() const {
  return std::ranges::none_of(replicas_, [](const auto& replica) {
    return replica && !replica->removed && !replica->spec.draining && replica->health.state() != ReplicaState::down;
  });
}

void Pool::report(const ReplicaKey& key, Sign sign, Moment now, std::optional<std::chrono::duration<double>> full_for) {
  free_room(now, [&](Moment latest_now) {
    Replica* const replica = find(key);
    if (replica == nullptr) return;
    const bool may_be_ejected = replica->spec.health.eject && may_eject();
    replica->health.advance(latest_now);
    replica->health.showed(sign, may_be_ejected, latest_now);
    if (sign == Sign::full) {
      const auto wait = std::chrono::duration_cast<Moment::duration>(full_for.value_or(std::chrono::seconds(1)));
      replica->health.full(latest_now + wait);
    }
    if (sign == Sign::answered || sign == Sign::client_error) {
      replica->answers.add(sign == Sign::client_error);
      if (replica->spec.health.eject) eject_the_odd_one(*replica);
    }
  });
}

void Pool::engine_told(const ReplicaKey& key, const EngineLimits& limits) {
  free_room(std::chrono::steady_clock::time_point::min(), [&](Moment) {
    if (Replica* const replica = find(key)) replica->told = limits;
  });
}

ReplicaHealth Pool::health(const ReplicaKey& key, Moment now) {
  const std::lock_guard lock(mutex_);
  Replica* const replica = find(key);
  if (replica == nullptr) return {};
  replica->health.advance(latest(now));
  const Health& health = replica->health;
  if (replica->removed || replica->spec.draining) {
    const auto* const reason = replica->removed ? "it is no longer in the settings" : "it was told to drain";
    return {ReplicaState::draining, replica->left, reason, health.probe_after()};
  }
  return {health.state(), health.since(), health.reason(), health.probe_after()};
}

std::vector<ReplicaChange> Pool::take_changes(Moment now) {
  return free_room(now, [&](Moment latest_now) {
    std::vector<ReplicaChange> changes;
    for (const auto& replica : replicas_) {
      if (!replica) continue;
      replica->health.advance(latest_now);
      eject_if_hung(*replica);
    }
    end_starts();
    for (const auto& replica : replicas_) {
      if (!replica) continue;
      for (auto& change : replica->health.take_changes())
        if (!replica->removed || change.hung)
          changes.push_back({replica->spec.name, replica->spec.subject, std::move(change)});
    }
    return changes;
  });
}

}  // namespace weir::balancer

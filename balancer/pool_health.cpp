#include "balancer/pool_health.hpp"

#include <utility>

#include "balancer/if_memory_allows.hpp"
#include "balancer/peers.hpp"
#include "balancer/silence.hpp"

namespace weir::balancer {

void PoolHealth::report(const ReplicaKey& key, Sign sign, Moment now,
                        std::optional<std::chrono::duration<double>> full_for, const Caller& caller) {
  core_.free_room(now, [&](PoolParts& parts) {
    const ReplicaSet& replicas = parts.state.replicas;
    const Moment latest = parts.state.latest;
    PoolReplica* const replica = replicas.find(key);
    if (replica == nullptr) return;
    const bool may_be_ejected = replica->spec.health.eject && replicas.may_eject();
    replica->health.advance(latest);
    // A storm of connections fills the backlog of a replica that works.
    if (sign == Sign::connect_timed_out && silence::lives(*replica, latest)) return;
    if (sign == Sign::absolved) absolved_until_ = latest + absolved_for;
    // Requests that no replica can answer are about: where no second one was asked, an error is nobody's fault.
    if (sign == Sign::failed_alone) sign = latest < absolved_until_ ? Sign::absolved : Sign::failed;
    if (parts.state.split.is_on()) parts.state.split.note(replica->spec.candidate, sign);
    if (caller.refused) parts.state.split.note_refused(*caller.refused);
    const bool to_blame = note_end(replicas, *replica, sign, caller, latest) || sign == Sign::connect_timed_out;
    replica->health.showed(sign, may_be_ejected && to_blame, latest);
    // Nobody listens any more: whatever comes back there has computed nothing.
    if (sign == Sign::refused || sign == Sign::probe_refused)
      parts.state.prefixes.wipe(key.index, PrefixWipe::down);
    if (sign == Sign::full) replica->health.full(full_for, latest);
    if (sign == Sign::absolved) replica->rests_until = Moment::min();
    if (sign == Sign::answered || sign == Sign::client_error) replica->answers.add(sign == Sign::client_error, latest);
    if (sign == Sign::outdone) replica->answers.outdone(latest);
    if (replica->spec.health.eject) eject_if_odd(replicas, *replica, latest);
  });
}

bool PoolHealth::pardon(const ReplicaKey& key, Moment now) {
  return core_.free_room(now, [&](PoolParts& parts) {
    PoolReplica* const replica = parts.state.replicas.find(key);
    if (replica == nullptr || !replica->health.pardon(parts.state.latest)) return false;
    replica->answers.clear();
    replica->ends.clear();
    return true;
  });
}

void PoolHealth::unresolved(const ReplicaKey& key, std::string_view reason, Moment now) {
  core_.free_room(now, [&](PoolParts& parts) {
    if (PoolReplica* const replica = parts.state.replicas.find(key))
      replica->health.unresolved(reason, parts.state.latest);
  });
}

void PoolHealth::engine_told(const ReplicaKey& key, const EngineLimits& limits) {
  core_.free_room(Moment::min(), [&](PoolParts& parts) {
    PoolReplica* const replica = parts.state.replicas.find(key);
    if (replica == nullptr) return;
    const EngineLimits before = std::exchange(replica->told, limits);
    // Looks at all that wait. Engines tell the same every few seconds: without memory the next time counts.
    if (before.max_context != limits.max_context && !if_memory_allows([&] { parts.queue.note_contexts(); })) {
      replica->told = before;
      return;
    }
    if (const auto tokens = replica->kv_tokens()) parts.state.prefixes.told(key.index, *tokens);
  });
}

void PoolHealth::cache_told(const ReplicaKey& key, const EngineSigns& signs) {
  core_.locked([&](PoolParts& parts) {
    if (parts.state.replicas.find(key) != nullptr) parts.state.prefixes.told(key.index, signs);
  });
}

ReplicaHealth PoolHealth::of(const ReplicaKey& key, Moment now) {
  return core_.locked([&](PoolParts& parts) -> ReplicaHealth {
    PoolReplica* const replica = parts.state.replicas.find(key);
    if (replica == nullptr) return {};
    Health& health = replica->health;
    health.advance(parts.state.pass(now));
    if (replica->removed || replica->spec.draining) {
      const auto* const reason = replica->removed ? "it is no longer in the settings" : "it was told to drain";
      return {ReplicaState::draining, replica->left, reason, health.probe_after()};
    }
    const auto reason = replica->closed && !health.out() ? "its rollout gives it no requests" : health.reason();
    return {health.state(), health.since(), reason, health.probe_after(), replica->closed};
  });
}

std::vector<ReplicaChange> PoolHealth::take_changes(Moment now) {
  return core_.free_room(now, [](PoolParts& parts) {
    const ReplicaSet& replicas = parts.state.replicas;
    const Moment latest = parts.state.latest;
    for (PoolReplica& replica : replicas.all()) {
      replica.health.advance(latest);
      const auto hangs = silence::judge(replica, latest);
      if (hangs && replicas.may_call_hung(replica)) silence::convict(replica, *hangs, latest);
    }
    parts.starts.end_finished();
    std::vector<ReplicaChange> changes;
    for (PoolReplica& replica : replicas.all()) {
      for (auto& change : replica.health.take_changes())
        if (!replica.removed || change.hung)
          changes.push_back({replica.spec.name, replica.spec.subject, std::move(change)});
    }
    return changes;
  });
}

std::vector<Suspect> PoolHealth::take_suspects() {
  return core_.locked([](PoolParts& parts) {
    std::vector<Suspect> suspects;
    for (PoolReplica& replica : parts.state.replicas.all())
      if (const auto since = replica.suspicion.take_new())
        suspects.push_back({replica.key, replica.spec.subject, *since});
    return suspects;
  });
}

void PoolHealth::testify(const ReplicaKey& key, Testimony what, Moment asked, Moment now) {
  core_.locked([&](PoolParts& parts) {
    PoolReplica* const replica = parts.state.replicas.find(key);
    if (replica == nullptr || !replica->suspicion.is_on()) return;
    const Moment latest = parts.state.pass(now);
    if (what != Testimony::works) return replica->suspicion.hear(what, asked, latest);
    replica->ledger.lives(latest);
    replica->suspicion.end();
  });
}

std::optional<Moment> PoolHealth::last_life(const ReplicaKey& key, Moment now) {
  return core_.locked([&](PoolParts& parts) -> std::optional<Moment> {
    PoolReplica* const replica = parts.state.replicas.find(key);
    if (replica == nullptr) return std::nullopt;
    return replica->ledger.last_life(parts.state.pass(now));
  });
}

}  // namespace weir::balancer

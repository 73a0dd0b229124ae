#include "balancer/pool_health.hpp"

#include <algorithm>
#include <utility>

#include "balancer/silence.hpp"

namespace weir::balancer {

namespace {

/// A peer that fails now is no witness: its good answers are of before.
bool in_a_row(const PoolReplica& peer) { return peer.health.failures() > 1; }

/// Judges a row of failures that one client alone had. A replica that serves others is not to blame. Else a peer is a
/// witness, or all peers together, that answered this client well within a minute, and fails it so much less that
/// chance does not explain the row.
bool peers_answer(const ReplicaSet& replicas, PoolReplica& replica, const Caller& caller, Moment now) {
  constexpr std::chrono::seconds of_streams{5};
  if (replica.evidence.serves_others(caller, now) || replica.ledger.lived_within(of_streams, now)) return false;
  const std::uint32_t row = replica.health.failures() + 1;
  Evidence::Counts all;
  bool one_is = false;
  for (const PoolReplica& peer : replicas.peers_of(replica)) {
    if (in_a_row(peer)) continue;
    const Evidence::Counts ends = peer.evidence.counts(caller.client, 0, now);
    one_is |= is_no_chance(ends.good, ends.bad, row);
    all += ends;
  }
  return one_is || is_no_chance(all.good, all.bad, row);
}

/// True if all peers fail such requests, too, so often that the row may be chance.
bool peers_fail(const ReplicaSet& replicas, const PoolReplica& replica, const Caller& caller, Moment now) {
  bool any = false;
  for (const PoolReplica& peer : replicas.peers_of(replica)) {
    const Evidence::Counts ends = peer.evidence.counts({}, caller.topic, now);
    const bool fails = ends.bad > 0 && !is_no_chance(ends.answers(), ends.bad, replica.health.failures() + 1);
    if (!fails && !in_a_row(peer)) return false;
    any = true;
  }
  return any;
}

}  // namespace

void PoolHealth::failed(const ReplicaSet& replicas, PoolReplica& replica, const Caller& caller, bool may_eject,
                        Moment now) {
  Evidence& evidence = replica.evidence;
  // Requests that were there when it went out end as they can, and say nothing of the time after that.
  if (!replica.health.out()) evidence.failed(caller, now);
  const bool several = evidence.has_failed_several(caller, now) && !peers_fail(replicas, replica, caller, now);
  const bool to_blame = (several || peers_answer(replicas, replica, caller, now)) &&
                        !evidence.answers_other_topics(caller.topic, now);
  replica.health.showed(Sign::failed, may_eject && to_blame, now);
}

/// A replica is ejected once others have answered well what it had refused to two clients, or to the only one.
void PoolHealth::outdone(const ReplicaSet& replicas, PoolReplica& replica, const Caller& caller, Moment now) {
  Evidence& evidence = replica.evidence;
  if (!evidence.is_outdone() || evidence.answers_other_topics(caller.topic, now)) return;
  if (!evidence.outdone_for_several() && evidence.serves_others(caller, now)) return;
  if (replicas.is_odd(replica, 0, Evidence::outdone_in_a_row, now) && replicas.may_eject())
    replica.health.odd_one_out("it answers 4xx where its peers answer the same requests well", now);
}

/// Returns true if an answer with nothing in it is the replica's fault: its peers give so much more on this topic that
/// chance does not explain the row.
bool PoolHealth::gave_nothing(const ReplicaSet& replicas, PoolReplica& replica, const Caller& caller, bool may_eject,
                              Moment now) {
  Evidence& evidence = replica.evidence;
  Evidence::Counts to_client, to_all;
  for (const PoolReplica& peer : replicas.peers_of(replica)) {
    if (caller.client) to_client += peer.evidence.counts(caller.client, caller.topic, now);
    // A peer that gives nothing now, either, is no witness.
    if (peer.evidence.empties(caller.topic) < 2) to_all += peer.evidence.counts({}, caller.topic, now);
  }
  // A client that gets nothing from the peers, either, asks for nothing.
  evidence.empty(caller, to_client.empty <= to_client.good, now);
  if (!evidence.empty_for_several(caller, now)) return false;
  if (!is_no_chance(to_all.good, to_all.empty, evidence.empties(caller.topic))) return false;
  evidence.gives_nothing(caller, now);
  if (may_eject && !replica.health.out() && !evidence.answers_other_topics(caller.topic, now))
    replica.health.odd_one_out("its answers are empty where its peers' are not", now);
  return true;
}

void PoolHealth::report(const ReplicaKey& key, Sign sign, Moment now,
                        std::optional<std::chrono::duration<double>> full_for, const Caller& caller) {
  core_.free_room(now, [&](PoolParts& parts) {
    PoolState& pool = parts.state;
    const ReplicaSet& replicas = pool.replicas;
    const Moment latest = pool.latest;
    PoolReplica* const replica = replicas.find(key);
    if (replica == nullptr) return;
    Health& health = replica->health;
    Evidence& evidence = replica->evidence;
    const bool may_eject = replica->spec.health.eject && replicas.may_eject();
    health.advance(latest);
    // A storm of connections fills the backlog of a replica that works.
    if (sign == Sign::connect_timed_out && silence::lives(*replica, latest)) return;
    const bool was_out = health.out();
    const bool nothing = sign == Sign::empty;
    const bool gave_nothing_alone = nothing && gave_nothing(replicas, *replica, caller, may_eject, latest);
    if (pool.split.is_on())
      pool.split.note(replica->spec.candidate, gave_nothing_alone ? Sign::failed : sign, caller.number);
    if (caller.refused_content) pool.split.note_refused(caller.number);
    switch (sign) {
      case Sign::failed:
        failed(replicas, *replica, caller, may_eject, latest);
        break;
      case Sign::answered:
      case Sign::empty:
        if (caller.gives_work && !gave_nothing_alone)
          evidence.good(caller, !nothing, latest);
        else
          evidence.answered(latest);
        // A server that only answers what gives no work has not shown that its engine works.
        health.showed(caller.gives_work ? sign : Sign::client_error, may_eject, latest);
        break;
      case Sign::client_error:
        evidence.refused(caller, latest);
        health.showed(sign, may_eject, latest);
        if (replica->spec.health.eject) outdone(replicas, *replica, caller, latest);
        break;
      case Sign::outdone:
        evidence.outdone(caller, latest);
        if (replica->spec.health.eject) outdone(replicas, *replica, caller, latest);
        break;
      case Sign::full:
        evidence.full(caller, full_for, latest);
        health.showed(sign, may_eject, latest);
        break;
      case Sign::refused:
      case Sign::probe_refused:
        // Nobody listens any more: whatever comes back there has computed nothing.
        pool.prefixes.wipe(key.index, PrefixWipe::down);
        [[fallthrough]];
      default:
        health.showed(sign, may_eject, latest);
    }
    if (health.out() && !was_out) evidence.clear();
  });
}

bool PoolHealth::refused_everywhere(const ReplicaKey& key, const Caller& caller, Moment now) {
  return core_.locked([&](PoolParts& parts) {
    const Moment latest = parts.state.pass(now);
    return std::ranges::none_of(parts.state.replicas.named(), [&](const PoolReplica& one) {
      return one.key.serial != key.serial && one.is_in() && !one.evidence.refuses(caller, latest);
    });
  });
}

bool PoolHealth::is_lost_alone(const ReplicaKey& key, Moment now) {
  return core_.locked([&](PoolParts& parts) {
    PoolReplica* const replica = parts.state.replicas.find(key);
    if (replica == nullptr) return false;
    const Moment before = std::exchange(replica->lost_at, parts.state.pass(now));
    const bool another_was = before != Moment::min() && replica->lost_at - before < lost_together;
    return replica->ledger.in_flight() == 0 && !another_was;
  });
}

bool PoolHealth::was_outdone(const ReplicaKey& key, const Caller& caller, Moment now) {
  return core_.locked([&](PoolParts& parts) {
    const PoolReplica* const replica = parts.state.replicas.find(key);
    return replica != nullptr && replica->evidence.was_outdone(caller, parts.state.pass(now));
  });
}

bool PoolHealth::pardon(const ReplicaKey& key, Moment now) {
  return core_.free_room(now, [&](PoolParts& parts) {
    PoolReplica* const replica = parts.state.replicas.find(key);
    if (replica == nullptr || !replica->health.pardon(parts.state.latest)) return false;
    replica->evidence.clear();
    return true;
  });
}

void PoolHealth::unresolved(const ReplicaKey& key, std::string_view reason, Moment now) {
  core_.free_room(now, [&](PoolParts& parts) {
    if (PoolReplica* const replica = parts.state.replicas.find(key))
      replica->health.unresolved(reason, parts.state.latest);
  });
}

void PoolHealth::ill(const ReplicaKey& key, unsigned status, Moment now) {
  core_.locked([&](PoolParts& parts) {
    PoolReplica* const replica = parts.state.replicas.find(key);
    if (replica == nullptr) return;
    const Moment latest = parts.state.pass(now);
    replica->health.advance(latest);
    const bool was_out = replica->health.out();
    replica->health.ill(status, latest);
    if (replica->health.out() && !was_out) replica->evidence.clear();
  });
}

bool PoolHealth::engine_told(const ReplicaKey& key, const EngineLimits& limits) {
  return core_.free_room(Moment::min(), [&](PoolParts& parts) {
    PoolReplica* const replica = parts.state.replicas.find(key);
    if (replica == nullptr) return false;
    const EngineLimits before = std::exchange(replica->told, limits);
    if (const auto tokens = replica->kv_tokens()) parts.state.prefixes.told(key.index, *tokens);
    const bool falls_asleep = limits.asleep && !before.asleep;
    return falls_asleep && std::ranges::any_of(parts.state.replicas.named(), &PoolReplica::is_in);
  });
}

void PoolHealth::models_told(const ReplicaKey& key, ModelList models) {
  core_.free_room(Moment::min(), [&](PoolParts& parts) {
    PoolReplica* const replica = parts.state.replicas.find(key);
    if (replica == nullptr || !replica->models.set(std::move(models))) return;
    parts.state.compare_lists();
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
    const bool asleep = replica->told.asleep && !health.out();
    std::string reason = health.reason();
    if (replica->closed && !health.out())
      reason = "its rollout gives it no requests";
    else if (asleep)
      reason = "it says that it sleeps";
    return {health.state(), health.since(), std::move(reason), health.probe_after(), replica->closed, asleep};
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

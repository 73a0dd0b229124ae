#include "balancer/pool_health.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "balancer/if_memory_allows.hpp"
#include "balancer/silence.hpp"

namespace weir::balancer {

namespace {

/// The chance of a row of failures, if the replica failed as rarely as its peers, below which the replica is to blame.
constexpr double least_chance = 1e-5;

/// Judges a row of failures that one client alone had. A replica that serves others is not to blame. Else a peer is a
/// witness, or all peers together, that answered this client well within a minute, and fails it so much less that
/// chance does not explain the row. By Laplace's rule of succession a replica of which little is known may fail, too. Twenty
/// failures show all that a row can show.
bool peers_answer(const ReplicaSet& replicas, const PoolReplica& replica, Client client, Moment now) {
  if (replica.evidence.serves_others(client, now)) return false;
  const std::uint32_t row = std::min(replica.health.failures() + 1, 20U);
  const auto is_witness = [row](const Evidence::Counts& ends) {
    const double share = (ends.bad + 1.0) / (ends.good + ends.bad + 2.0);
    return ends.good > 0 && std::pow(share, row) < least_chance;
  };
  Evidence::Counts all;
  bool one_is = false;
  for (const PoolReplica& peer : replicas.peers_of(replica)) {
    const Evidence::Counts ends = peer.evidence.counts(client, 0, now);
    one_is |= is_witness(ends);
    all += ends;
  }
  return one_is || is_witness(all);
}

/// True if the peers give the same client more than nothing, or, for an answer without any token, all clients.
bool peers_give_more(const ReplicaSet& replicas, const PoolReplica& replica, Sign sign, const Caller& caller,
                     Moment now) {
  constexpr std::uint32_t enough = 3, enough_of_all = 20;
  Evidence::Counts all;
  for (const PoolReplica& peer : replicas.peers_of(replica)) {
    const Evidence::Counts own = caller.client ? peer.evidence.counts(caller.client, caller.topic, now)
                                               : Evidence::Counts();
    if (own.good >= enough && 10 * own.empty < own.good) return true;
    all += peer.evidence.counts({}, caller.topic, now);
  }
  return sign == Sign::empty && all.good >= enough_of_all && 20 * all.empty < all.good;
}

}  // namespace

/// Judges what its peers have to say of: an error of which no second replica was asked, and an answer with nothing.
Sign PoolHealth::judged(const PoolState& pool, const PoolReplica& replica, Sign sign, const Caller& caller) {
  const Moment now = pool.latest;
  switch (sign) {
    case Sign::failed_alone:
      // Requests that no replica can answer are about.
      return std::ranges::any_of(pool.replicas.named(),
                                 [&](const PoolReplica& one) { return one.evidence.absolves(caller, now); })
                 ? Sign::absolved
                 : Sign::failed;
    case Sign::empty:
    case Sign::meagre:
      return peers_give_more(pool.replicas, replica, sign, caller, now) ? Sign::failed : Sign::answered;
    default:
      return sign;
  }
}

void PoolHealth::failed(const ReplicaSet& replicas, PoolReplica& replica, Sign shown, const Caller& caller,
                        bool may_eject, Moment now) {
  Evidence& evidence = replica.evidence;
  evidence.failed(caller, now);
  const bool to_blame = (evidence.has_failed_several() || peers_answer(replicas, replica, caller.client, now)) &&
                        !evidence.answers_other_topics(caller.topic, now);
  const bool empty = shown == Sign::empty || shown == Sign::meagre;
  const auto* const why = empty ? "its answers are empty where its peers' are not" : "";
  replica.health.showed(Sign::failed, may_eject && to_blame, now, why);
}

/// A replica is ejected once others have answered well what it had refused to two clients, or to the only one.
void PoolHealth::outdone(const ReplicaSet& replicas, PoolReplica& replica, const Caller& caller, Moment now) {
  Evidence& evidence = replica.evidence;
  if (!evidence.is_outdone() || evidence.answers_other_topics(caller.topic, now)) return;
  if (!evidence.outdone_for_several() && evidence.serves_others(caller.client, now)) return;
  if (replicas.is_odd(replica, 0, Evidence::outdone_in_a_row, now) && replicas.may_eject())
    replica.health.odd_one_out(now);
}

void PoolHealth::report(const ReplicaKey& key, Sign shown, Moment now,
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
    if (shown == Sign::connect_timed_out && silence::lives(*replica, latest)) return;
    const Sign sign = judged(pool, *replica, shown, caller);
    if (pool.split.is_on()) pool.split.note(replica->spec.candidate, sign);
    if (caller.refused) pool.split.note_refused(*caller.refused);
    const bool was_out = health.out();
    switch (sign) {
      case Sign::failed:
        failed(replicas, *replica, shown, caller, may_eject, latest);
        break;
      case Sign::answered:
        if (caller.gives_work)
          evidence.good(caller, shown == Sign::answered, latest);
        else
          evidence.answered(latest);
        health.showed(sign, may_eject, latest);
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
      case Sign::absolved:
        // An error that is absolved by earlier ones adds nothing to them.
        shown == Sign::absolved ? evidence.absolved(caller, latest) : evidence.end_rest(caller);
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

bool PoolHealth::refused_elsewhere(const ReplicaKey& key, const Caller& caller, Moment now) {
  return core_.locked([&](PoolParts& parts) {
    const Moment latest = parts.state.pass(now);
    return std::ranges::any_of(parts.state.replicas.named(), [&](const PoolReplica& one) {
      return one.key.serial != key.serial && one.evidence.refuses(caller, latest);
    });
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

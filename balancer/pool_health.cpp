#include "balancer/pool_health.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

namespace weir::balancer {

namespace {

using namespace silence;

bool has_lived(PoolReplica& replica, std::chrono::duration<double> within, Moment now) {
  const auto life = replica.ledger.last_life(now);
  return life && now - *life < within;
}

bool is_too_long(double silence, double takes, double at_least = least_convicting_seconds) {
  return silence >= at_least && silence >= conviction_factor * takes;
}

/// `format` has a place for each of the numbers.
template <class... Numbers>
std::string clause(const char* format, Numbers... numbers) {
  char text[160];
  std::snprintf(text, sizeof text, format, numbers...);
  return text;
}

/// Begins and ends the suspicion of a replica. Returns a clause that says why, if the replica hangs.
std::optional<std::string> judge(PoolReplica& replica, Moment now) {
  TokenLedger& ledger = replica.ledger;
  const TimeModel time = replica.time.model(now);
  const Gauges gauges = ledger.gauges();
  const double step = time.step_of(gauges.streaming, static_cast<double>(gauges.context));
  const double prefill = replica.time.prompt_rate().value_or(slowest_prefill);
  const double decode = replica.time.knows_steps() ? 1 / step : slowest_decode;
  const auto seconds_of = [=](Tokens prompts, Tokens output) {
    return static_cast<double>(prompts) / prefill + static_cast<double>(output) / decode;
  };
  // Streams whose tokens come at once teach a pace that no other answer has.
  const auto at_slowest = [=](Tokens output) { return static_cast<double>(output) / std::min(decode, slowest_decode); };
  const bool still = replica.suspicion.stands_still();
  const TokenLedger::Silence silence = ledger.silence(now);
  const double silent = silence.seconds;
  const double due = seconds_of(silence.due_to_first_token, 0), all = seconds_of(silence.unanswered, 0);
  double longest = silent, may_take = 0;
  bool doubted = silent >= least_suspect_seconds, makes_nothing = false, is_late = false;
  bool stands = doubted && silent >= suspicion_factor * due, grave = stands;
  if (const auto& other = silence.unstreamed) {
    const double takes = seconds_of(other->prompt, other->output);
    stands = stands || other->silent_seconds >= std::max(least_suspect_seconds, takes);
    grave = grave || other->silent_seconds >= std::max(least_suspect_seconds, suspicion_factor * takes);
    longest = std::max(longest, other->silent_seconds);
    may_take = all + at_slowest(other->longest_output);
    makes_nothing = still && is_too_long(other->silent_seconds, std::max(takes, all));
    is_late = is_too_long(other->silent_seconds, may_take, least_convicting_unstreamed_seconds);
  }
  const bool down = replica.health.view().is_mute;
  stands = stands || (down && longest >= least_suspect_seconds);
  doubted = doubted || stands;
  if (!doubted || !replica.spec.health.eject) {
    replica.suspicion.end();
    return std::nullopt;
  }
  replica.suspicion.begin(now);
  replica.suspicion.stand(stands, grave, now);
  // Streams that wait for their first token may wait for an answer that is not streamed.
  const bool may_wait = !still && !silence.owes_more_tokens;
  const double others = may_wait ? at_slowest(silence.longest_output) : 0;
  const bool unexplained = is_too_long(silent, all + others);
  const bool mute_for_long = replica.suspicion.is_mute() && longest >= 2 * least_suspect_seconds;
  const bool confirmed = stands && (down || mute_for_long || replica.suspicion.is_confirmed());
  const bool deaf = replica.suspicion.is_deaf() && silent >= std::max(2 * least_suspect_seconds, due);
  if (confirmed) return clause("it gave no sign of life for %.1f s, and its probe did not pass", longest);
  if (deaf)
    return clause("it gave no sign of life for %.1f s, and answered neither its probe nor for its metrics page",
                  longest);
  if (makes_nothing) return clause("it gave no sign of life for %.1f s, and its own counters stand still", longest);
  if (unexplained)
    return clause("none of its streams got a token for %.1f s, where one was due after %.1f s", silent, due);
  if (is_late)
    return clause("it gave no sign of life for %.1f s, where an answer was due after %.1f s", longest, may_take);
  return std::nullopt;
}

/// Puts out a replica that hangs. Requests that are there count in no silence any more.
void convict(PoolReplica& replica, std::string_view reason, Moment now) {
  replica.health.hung(reason, now);
  replica.ledger.forget_silence();
  replica.suspicion.end();
  replica.evidence = {};
}

/// True if an answer, or a part of one, came within the last seconds.
bool lives(PoolReplica& replica, Moment now) {
  const std::chrono::duration<double> lately(least_suspect_seconds);
  return has_lived(replica, lately, now) || replica.evidence.answered_within(lately, now);
}

/// A peer that fails now is no witness: its good answers are of before.
bool in_a_row(const PoolReplica& peer) { return peer.health.view().failures > 1; }

/// Judges a row of failures that one client alone had. A replica that serves others is not to blame. Else a peer is a
/// witness, or all peers together, that answered this client well within a minute, and fails it so much less that
/// chance does not explain the row.
bool peers_answer(const ReplicaSet& replicas, PoolReplica& replica, const Caller& caller, Moment now) {
  constexpr std::chrono::seconds of_streams{5};
  if (replica.evidence.serves_others(caller, now) || has_lived(replica, of_streams, now)) return false;
  const std::uint32_t row = replica.health.view().failures + 1;
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
    const bool fails = ends.bad > 0 && !is_no_chance(ends.answers(), ends.bad, replica.health.view().failures + 1);
    if (!fails && !in_a_row(peer)) return false;
    any = true;
  }
  return any;
}

void failed(const ReplicaSet& replicas, PoolReplica& replica, const Caller& caller, bool may_eject, Moment now) {
  Evidence& evidence = replica.evidence;
  // Requests that were there when it went out end as they can, and say nothing of the time after that.
  if (!replica.health.out()) evidence.showed(Sign::failed, caller, now);
  const bool several = evidence.has_failed_several(caller, now) && !peers_fail(replicas, replica, caller, now);
  const bool to_blame =
      (several || peers_answer(replicas, replica, caller, now)) && !evidence.answers_other_topics(caller.topic, now);
  replica.health.showed(Sign::failed, may_eject && to_blame, now);
}

/// A replica is ejected once others have answered well what it had refused to two clients, or to the only one.
void outdone(const ReplicaSet& replicas, PoolReplica& replica, const Caller& caller, Moment now) {
  if (!replica.spec.health.eject || !replica.evidence.is_outdone(caller, now)) return;
  if (replicas.is_odd(replica, 0, Evidence::outdone_in_a_row, now) && replicas.may_eject())
    replica.health.odd_one_out("it answers 4xx where its peers answer the same requests well", now);
}

/// Returns true if an answer with nothing in it is the replica's fault: its peers give so much more on this topic that
/// chance does not explain the row.
bool gave_nothing(const ReplicaSet& replicas, PoolReplica& replica, const Caller& caller, bool may_eject, Moment now) {
  Evidence& evidence = replica.evidence;
  Evidence::Counts to_client, to_all;
  for (const PoolReplica& peer : replicas.peers_of(replica)) {
    if (caller.client) to_client += peer.evidence.counts(caller.client, caller.topic, now);
    // A peer that gives nothing now, either, is no witness.
    if (peer.evidence.empties(caller.topic) < 2) to_all += peer.evidence.counts({}, caller.topic, now);
  }
  // A client that gets nothing from the peers, either, asks for nothing.
  const std::uint32_t row = evidence.empty(caller, to_client.empty <= to_client.good, now);
  if (!is_no_chance(to_all.good, to_all.empty, row)) return false;
  evidence.gives_nothing(caller, now);
  if (may_eject && !replica.health.out() && !evidence.answers_other_topics(caller.topic, now))
    replica.health.odd_one_out("its answers are empty where its peers' are not", now);
  return true;
}

}  // namespace

void PoolHealth::report(const ReplicaKey& key, Sign sign, Moment now,
                        std::optional<std::chrono::duration<double>> full_for, const Caller& caller) {
  core_.free_room(now, [&](PoolState& pool) {
    const ReplicaSet& replicas = pool.replicas;
    const Moment latest = pool.latest;
    PoolReplica* const replica = replicas.find(key);
    if (replica == nullptr) return;
    Health& health = replica->health;
    Evidence& evidence = replica->evidence;
    const bool may_eject = replica->spec.health.eject && replicas.may_eject();
    health.advance(latest);
    // A storm of connections fills the backlog of a replica that works.
    if (sign == Sign::connect_timed_out && lives(*replica, latest)) return;
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
        if (!gave_nothing_alone) evidence.showed(sign, caller, latest);
        // A server that only answers what gives no work has not shown that its engine works.
        health.showed(caller.gives_work ? sign : Sign::client_error, may_eject, latest);
        break;
      case Sign::client_error:
      case Sign::outdone:
        evidence.showed(sign, caller, latest);
        health.showed(sign, may_eject, latest);
        outdone(replicas, *replica, caller, latest);
        break;
      case Sign::refused:
      case Sign::probe_refused:
        // Nobody listens any more: whatever comes back there has computed nothing.
        pool.prefixes.wipe(key.index, PrefixWipe::down);
        [[fallthrough]];
      default:
        evidence.showed(sign, caller, latest, full_for);
        health.showed(sign, may_eject, latest);
    }
    if (health.out() && !was_out) evidence = {};
  });
}

bool PoolHealth::refused_everywhere(const ReplicaKey& key, const Caller& caller, Moment now) {
  return core_.locked([&](PoolState& pool) {
    const Moment latest = pool.pass(now);
    return std::ranges::none_of(pool.replicas.named(), [&](const PoolReplica& one) {
      return one.key.serial != key.serial && one.is_in() && !one.evidence.past_of(caller, latest).refuses;
    });
  });
}

bool PoolHealth::is_lost_alone(const ReplicaKey& key, Moment now) {
  return core_.locked([&](PoolState& pool) {
    PoolReplica* const replica = pool.replicas.find(key);
    if (replica == nullptr) return false;
    const Moment before = std::exchange(replica->lost_at, pool.pass(now));
    const bool another_was = before != Moment::min() && replica->lost_at - before < lost_together;
    return replica->ledger.gauges().in_flight == 0 && !another_was;
  });
}

bool PoolHealth::was_outdone(const ReplicaKey& key, const Caller& caller, Moment now) {
  return core_.locked([&](PoolState& pool) {
    const PoolReplica* const replica = pool.replicas.find(key);
    return replica != nullptr && replica->evidence.past_of(caller, pool.pass(now)).was_outdone;
  });
}

bool PoolHealth::pardon(const ReplicaKey& key, Moment now) {
  return core_.free_room(now, [&](PoolState& pool) {
    PoolReplica* const replica = pool.replicas.find(key);
    if (replica == nullptr || !replica->health.pardon(pool.latest)) return false;
    replica->evidence = {};
    return true;
  });
}

void PoolHealth::unresolved(const ReplicaKey& key, std::string_view reason, Moment now) {
  core_.free_room(now, [&](PoolState& pool) {
    if (PoolReplica* const replica = pool.replicas.find(key)) replica->health.unresolved(reason, pool.latest);
  });
}

void PoolHealth::ill(const ReplicaKey& key, unsigned status, Moment now) {
  core_.locked([&](PoolState& pool) {
    PoolReplica* const replica = pool.replicas.find(key);
    if (replica == nullptr) return;
    const Moment latest = pool.pass(now);
    replica->health.advance(latest);
    const bool was_out = replica->health.out();
    replica->health.ill(status, latest);
    if (replica->health.out() && !was_out) replica->evidence = {};
  });
}

bool PoolHealth::engine_told(const ReplicaKey& key, const EngineLimits& limits) {
  return core_.free_room(Moment::min(), [&](PoolState& pool) {
    PoolReplica* const replica = pool.replicas.find(key);
    if (replica == nullptr) return false;
    const EngineLimits before = std::exchange(replica->told, limits);
    if (const auto tokens = replica->kv_tokens()) pool.prefixes.place(key, *tokens);
    const bool falls_asleep = limits.asleep && !before.asleep;
    return falls_asleep && std::ranges::any_of(pool.replicas.named(), &PoolReplica::is_in);
  });
}

void PoolHealth::models_told(const ReplicaKey& key, ModelList models) {
  core_.free_room(Moment::min(), [&](PoolState& pool) {
    PoolReplica* const replica = pool.replicas.find(key);
    if (replica == nullptr || !replica->models.set(std::move(models))) return;
    pool.compare_lists();
  });
}

void PoolHealth::cache_told(const ReplicaKey& key, const EngineSigns& signs) {
  core_.locked([&](PoolState& pool) {
    if (pool.replicas.find(key) != nullptr) pool.prefixes.told(key.index, signs);
  });
}

ReplicaHealth PoolHealth::of(const ReplicaKey& key, Moment now) {
  return core_.locked([&](PoolState& pool) -> ReplicaHealth {
    PoolReplica* const replica = pool.replicas.find(key);
    if (replica == nullptr) return {};
    Health& health = replica->health;
    health.advance(pool.pass(now));
    if (replica->removed || replica->spec.draining) {
      const auto* const reason = replica->removed ? "it is no longer in the settings" : "it was told to drain";
      return {ReplicaState::draining, replica->left, reason, health.probe_after()};
    }
    const bool asleep = replica->told.asleep && !health.out();
    const Health::View seen = health.view();
    std::string reason(seen.reason);
    if (replica->closed && !health.out())
      reason = "its rollout gives it no requests";
    else if (asleep)
      reason = "it says that it sleeps";
    return {seen.state, seen.since, std::move(reason), health.probe_after(), replica->closed, asleep};
  });
}

std::vector<ReplicaChange> PoolHealth::take_changes(Moment now) {
  return core_.free_room(now, [](PoolState& pool) {
    const ReplicaSet& replicas = pool.replicas;
    const Moment latest = pool.latest;
    for (PoolReplica& replica : replicas.all()) {
      replica.health.advance(latest);
      const auto hangs = judge(replica, latest);
      if (hangs && replicas.may_call_hung(replica)) convict(replica, *hangs, latest);
    }
    pool.end_starts();
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
  return core_.locked([](PoolState& pool) {
    std::vector<Suspect> suspects;
    for (PoolReplica& replica : pool.replicas.all())
      if (const auto since = replica.suspicion.take_new())
        suspects.push_back({replica.key, replica.spec.subject, *since});
    return suspects;
  });
}

void PoolHealth::testify(const ReplicaKey& key, Testimony what, Moment asked, Moment now) {
  core_.locked([&](PoolState& pool) {
    PoolReplica* const replica = pool.replicas.find(key);
    if (replica == nullptr || !replica->suspicion.is_on()) return;
    const Moment latest = pool.pass(now);
    if (what != Testimony::works) return replica->suspicion.hear(what, asked, latest);
    replica->ledger.lives(latest);
    replica->suspicion.end();
  });
}

std::optional<Moment> PoolHealth::last_life(const ReplicaKey& key, Moment now) {
  return core_.locked([&](PoolState& pool) -> std::optional<Moment> {
    PoolReplica* const replica = pool.replicas.find(key);
    if (replica == nullptr) return std::nullopt;
    return replica->ledger.last_life(pool.pass(now));
  });
}

}  // namespace weir::balancer

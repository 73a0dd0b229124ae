// What a pool does with the health of its replicas.
#include <algorithm>
#include <cstdio>

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
/// alone keeps them. One that is out, or takes no more requests, takes nothing from the pool: any that is in will do.
bool Pool::may_call_hung(const Replica& suspect) const {
  if (!suspect.removed && !suspect.spec.draining && !suspect.health.out()) return may_eject();
  return std::ranges::any_of(replicas_, [](const auto& replica) {
    return replica && !replica->removed && !replica->spec.draining && !replica->health.out();
  });
}

/// Silence makes a replica suspect. It hangs if a witness confirms a silence that its books do not explain, if neither its
/// door nor its page answers for 10 s and for as long as its books explain once, if its probes have failed so often that it is down, or
/// if nothing explains a silence as long as this. An answer that is not streamed shows nothing while it is made: where the
/// engine's counters do not stand still, it is given many times what the longest output that it may have takes.
void Pool::judge_silence(Replica& replica) {
  TokenLedger& ledger = replica.ledger;
  const double prefill = replica.rates.prefill().value_or(slowest_prefill);
  const double decode = replica.rates.decode().value_or(slowest_decode);
  const auto seconds_of = [=](Tokens prompts, Tokens output) {
    return static_cast<double>(prompts) / prefill + static_cast<double>(output) / decode;
  };
  // Streams whose tokens come at once teach a pace that no other answer has.
  const auto at_slowest = [=](Tokens output) { return static_cast<double>(output) / std::min(decode, slowest_decode); };
  const auto is_too_long = [](double silence, double takes, double at_least = least_convicting_seconds) {
    return silence >= at_least && silence >= conviction_factor * takes;
  };
  const bool still = replica.suspicion.stands_still();
  const double silent = ledger.silent_seconds(latest_);
  const double due = seconds_of(ledger.due_to_first_token(), 0), all = seconds_of(ledger.unanswered(), 0);
  double longest = silent, may_take = 0;
  bool doubted = silent >= least_suspect_seconds, makes_nothing = false, is_late = false;
  bool stands = doubted && silent >= suspicion_factor * due, grave = stands;
  if (const auto other = ledger.oldest_unstreamed(latest_)) {
    const double takes = seconds_of(other->prompt, other->output);
    stands = stands || other->silent_seconds >= std::max(least_suspect_seconds, takes);
    grave = grave || other->silent_seconds >= std::max(least_suspect_seconds, suspicion_factor * takes);
    longest = std::max(longest, other->silent_seconds);
    may_take = all + at_slowest(ledger.longest_unstreamed_output(other->silent_seconds));
    makes_nothing = still && is_too_long(other->silent_seconds, std::max(takes, all));
    is_late = is_too_long(other->silent_seconds, may_take, least_convicting_unstreamed_seconds);
  }
  const bool down = replica.health.state() == ReplicaState::down && !replica.health.refuses();
  stands = stands || (down && longest >= least_suspect_seconds);
  doubted = doubted || stands;
  if (!doubted || !replica.spec.health.eject) return replica.suspicion.end();
  replica.suspicion.begin(latest_);
  replica.suspicion.stand(stands, grave, latest_);
  // Streams that wait for their first token may wait for an answer that is not streamed.
  const bool may_wait = !still && !ledger.owes_more_tokens();
  const double others = may_wait ? at_slowest(ledger.longest_unstreamed_output(silent)) : 0;
  const bool unexplained = is_too_long(silent, all + others);
  const bool mute_for_long = replica.suspicion.is_mute() && longest >= 2 * least_suspect_seconds;
  const bool confirmed = stands && (down || mute_for_long || replica.suspicion.is_confirmed());
  const bool deaf = replica.suspicion.is_deaf() && silent >= std::max(2 * least_suspect_seconds, due);
  if ((!confirmed && !deaf && !unexplained && !makes_nothing && !is_late) || !may_call_hung(replica)) return;
  char reason[160];
  if (confirmed)
    std::snprintf(reason, sizeof reason, "it gave no sign of life for %.1f s, and its probe did not pass", longest);
  else if (deaf)
    std::snprintf(reason, sizeof reason,
                  "it gave no sign of life for %.1f s, and answered neither its probe nor for its metrics page", longest);
  else if (makes_nothing)
    std::snprintf(reason, sizeof reason, "it gave no sign of life for %.1f s, and its own counters stand still",
                  longest);
  else if (unexplained)
    std::snprintf(reason, sizeof reason, "none of its streams got a token for %.1f s, where one was due after %.1f s",
                  silent, due);
  else
    std::snprintf(reason, sizeof reason, "it gave no sign of life for %.1f s, where an answer was due after %.1f s",
                  longest, may_take);
  replica.health.hung(reason, latest_);
  replica.rates.leave_out_until(ledger.pending_seconds());
  ledger.forget_silence();
  replica.suspicion.end();
}

std::vector<Suspect> Pool::take_suspects() {
  const std::lock_guard lock(mutex_);
  std::vector<Suspect> suspects;
  for (const auto& replica : replicas_) {
    if (!replica) continue;
    const auto index = static_cast<ReplicaIndex>(&replica - replicas_.data());
    if (const auto since = replica->suspicion.take_new())
      suspects.push_back({{index, replica->serial}, replica->spec.subject, *since});
  }
  return suspects;
}

void Pool::testify(const ReplicaKey& key, Testimony what, Moment asked, Moment now) {
  const std::lock_guard lock(mutex_);
  Replica* const replica = find(key);
  if (replica == nullptr || !replica->suspicion.is_on()) return;
  if (what == Testimony::works) {
    replica->ledger.lives(latest(now));
    replica->suspicion.end();
  } else {
    replica->suspicion.hear(what, asked, latest(now));
  }
}

/// More than half of a replica's last answers are 4xx, and fewer than one in twenty of its peers'. A wrong model, which
/// answers in 2 ms, would draw all traffic; but a client whose requests are wrong may have come to it alone.
bool Pool::is_odd(const Replica& suspect) const {
  if (!suspect.answers.mostly_bad(latest_)) return false;
  AnswerWindow::Counts peers;
  for (const auto& replica : replicas_) {
    if (!is_peer(replica.get(), suspect)) continue;
    const auto peer = replica->answers.counts(latest_);
    peers.answers += peer.answers;
    peers.bad += peer.bad;
  }
  return peers.answers >= AnswerWindow::size && 20 * peers.bad < peers.answers;
}

bool Pool::is_peer(const Replica* replica, const Replica& suspect) {
  return replica != nullptr && !replica->removed && replica != &suspect && !replica->health.out();
}

/// Takes down what came of a client's request. Returns whether its replica is to blame, where that failed.
bool Pool::note_end(Replica& replica, Sign sign, const Caller& caller) {
  const bool good = sign == Sign::answered && caller.gives_work;
  if (good || sign == Sign::failed) replica.ends.add(!good, latest_);
  if (good) replica.failed_clients.answered(caller.client, latest_);
  if (sign != Sign::failed) return false;
  if (replica.health.failures() == 0) replica.failed_clients.begin();
  replica.failed_clients.failed(caller.client);
  if (replica.failed_clients.several()) return true;
  const std::size_t failures = replica.health.failures() + 1;
  return !replica.failed_clients.serves_others(latest_) && std::ranges::any_of(replicas_, [&](const auto& peer) {
    return is_peer(peer.get(), replica) &&
           peer->failed_clients.witnesses_for(caller.client, failures, peer->ends.counts(latest_), latest_);
  });
}

/// The odd one is out once other replicas have answered well what it had refused.
void Pool::eject_the_odd_one(Replica& suspect) {
  if (!suspect.answers.has_witnesses(latest_) || !is_odd(suspect) || !may_eject()) return;
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

/// An answer, or a part of one, came within the last seconds.
bool Pool::lives(Replica& replica) {
  const std::chrono::duration<double> lately(least_suspect_seconds);
  return replica.ledger.lived_within(lately, latest_) || replica.answers.answered_within(lately, latest_);
}

void Pool::report(const ReplicaKey& key, Sign sign, Moment now, std::optional<std::chrono::duration<double>> full_for,
                  const Caller& caller) {
  free_room(now, [&](Moment latest_now) {
    Replica* const replica = find(key);
    if (replica == nullptr) return;
    const bool may_be_ejected = replica->spec.health.eject && may_eject();
    replica->health.advance(latest_now);
    // A storm of connections fills the backlog of a replica that works.
    if (sign == Sign::connect_timed_out && lives(*replica)) return;
    if (sign == Sign::absolved) absolved_until_ = latest_now + absolved_for;
    // Requests that no replica can answer are about: where no second one was asked, an error is nobody's fault.
    if (sign == Sign::failed_alone) sign = latest_now < absolved_until_ ? Sign::absolved : Sign::failed;
    const bool to_blame = note_end(*replica, sign, caller) || sign == Sign::connect_timed_out;
    replica->health.showed(sign, may_be_ejected && to_blame, latest_now);
    if (sign == Sign::full) {
      const auto wait = std::chrono::duration_cast<Moment::duration>(full_for.value_or(std::chrono::seconds(1)));
      replica->health.full(latest_now + wait);
    }
    if (sign == Sign::absolved) replica->rests_until = Moment::min();
    if (sign == Sign::answered || sign == Sign::client_error)
      replica->answers.add(sign == Sign::client_error, latest_now);
    if (sign == Sign::outdone) replica->answers.outdone(latest_now);
    if (replica->spec.health.eject) eject_the_odd_one(*replica);
  });
}

void Pool::unresolved(const ReplicaKey& key, std::string_view reason, Moment now) {
  free_room(now, [&](Moment latest_now) {
    if (Replica* const replica = find(key)) replica->health.unresolved(reason, latest_now);
  });
}

void Pool::engine_told(const ReplicaKey& key, const EngineLimits& limits) {
  free_room(std::chrono::steady_clock::time_point::min(), [&](Moment) {
    Replica* const replica = find(key);
    if (replica == nullptr) return;
    const bool other_context = replica->told.max_context != limits.max_context;
    replica->told = limits;
    if (other_context) note_contexts();  // Looks at all that wait; engines tell the same every few seconds.
  });
}

bool Pool::pardon(const ReplicaKey& key, Moment now) {
  return free_room(now, [&](Moment latest_now) {
    Replica* const replica = find(key);
    if (replica == nullptr || !replica->health.pardon(latest_now)) return false;
    replica->answers.clear();
    replica->ends.clear();
    return true;
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
      judge_silence(*replica);
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

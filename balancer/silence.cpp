#include "balancer/silence.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace weir::balancer::silence {
namespace {

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

}  // namespace

std::optional<std::string> judge(PoolReplica& replica, Moment now) {
  TokenLedger& ledger = replica.ledger;
  const TimeModel time = replica.time.model(now);
  const double step = time.step_of(ledger.streaming(), static_cast<double>(ledger.context()));
  const double prefill = replica.time.prompt_rate().value_or(slowest_prefill);
  const double decode = replica.time.knows_steps() ? 1 / step : slowest_decode;
  const auto seconds_of = [=](Tokens prompts, Tokens output) {
    return static_cast<double>(prompts) / prefill + static_cast<double>(output) / decode;
  };
  // Streams whose tokens come at once teach a pace that no other answer has.
  const auto at_slowest = [=](Tokens output) { return static_cast<double>(output) / std::min(decode, slowest_decode); };
  const bool still = replica.suspicion.stands_still();
  const double silent = ledger.silent_seconds(now);
  const double due = seconds_of(ledger.due_to_first_token(), 0), all = seconds_of(ledger.unanswered(), 0);
  double longest = silent, may_take = 0;
  bool doubted = silent >= least_suspect_seconds, makes_nothing = false, is_late = false;
  bool stands = doubted && silent >= suspicion_factor * due, grave = stands;
  if (const auto other = ledger.oldest_unstreamed(now)) {
    const double takes = seconds_of(other->prompt, other->output);
    stands = stands || other->silent_seconds >= std::max(least_suspect_seconds, takes);
    grave = grave || other->silent_seconds >= std::max(least_suspect_seconds, suspicion_factor * takes);
    longest = std::max(longest, other->silent_seconds);
    may_take = all + at_slowest(ledger.longest_unstreamed_output(other->silent_seconds));
    makes_nothing = still && is_too_long(other->silent_seconds, std::max(takes, all));
    is_late = is_too_long(other->silent_seconds, may_take, least_convicting_unstreamed_seconds);
  }
  const bool down = replica.health.is_mute();
  stands = stands || (down && longest >= least_suspect_seconds);
  doubted = doubted || stands;
  if (!doubted || !replica.spec.health.eject) {
    replica.suspicion.end();
    return std::nullopt;
  }
  replica.suspicion.begin(now);
  replica.suspicion.stand(stands, grave, now);
  // Streams that wait for their first token may wait for an answer that is not streamed.
  const bool may_wait = !still && !ledger.owes_more_tokens();
  const double others = may_wait ? at_slowest(ledger.longest_unstreamed_output(silent)) : 0;
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

void convict(PoolReplica& replica, std::string_view reason, Moment now) {
  replica.health.hung(reason, now);
  replica.ledger.forget_silence();
  replica.suspicion.end();
  replica.evidence.clear();
}

bool lives(PoolReplica& replica, Moment now) {
  const std::chrono::duration<double> lately(least_suspect_seconds);
  return replica.ledger.lived_within(lately, now) || replica.evidence.answered_within(lately, now);
}

}  // namespace weir::balancer::silence

namespace weir::balancer {

double median_of(std::span<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

void Starts::end_finished() {
  const auto& replicas = pool_.replicas;
  const auto starts = [](const PoolReplica& replica) { return replica.health.state() == ReplicaState::starting; };
  if (std::ranges::none_of(replicas.named(), starts)) return;
  held_.clear();
  held_.reserve(replicas.places());
  for (const PoolReplica& replica : replicas.named())
    if (replica.health.state() == ReplicaState::up) held_.push_back(static_cast<double>(replica.ledger.prefill_left()));
  const bool has_peers = !held_.empty();
  const double held_by_peers = median_of(held_);
  for (PoolReplica& replica : replicas.named()) {
    if (!starts(replica)) continue;
    const Tokens allowance = replica.allowance();
    if (allowance == 0) continue;
    const Tokens wanted = replica.ledger.prefill_left() + pool_.waiting.tokens();
    const double needed = has_peers ? held_by_peers : static_cast<double>(wanted);
    if (static_cast<double>(allowance) >= needed) replica.health.started(pool_.latest);
  }
}

}  // namespace weir::balancer

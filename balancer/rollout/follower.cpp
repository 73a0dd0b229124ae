#include "balancer/rollout/follower.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "metrics/compare/samples/sample.hpp"

namespace weir::balancer::rollout {
namespace {

/// Returns the growth of a count, which begins at 0 again when its pool is split anew.
std::uint64_t more(std::uint64_t now, std::uint64_t before) { return now >= before ? now - before : now; }

Counts since(const SplitFigures& before, const SplitFigures& now) {
  return {more(now.candidate.ended, before.candidate.ended), more(now.candidate.failed, before.candidate.failed),
          more(now.stable.ended, before.stable.ended), more(now.stable.failed, before.stable.failed)};
}

Drawn drawn_since(const SplitFigures& before, const SplitFigures& now, std::uint64_t SideCounts::* what) {
  return {more(now.candidate.*what, before.candidate.*what), more(now.stable.*what, before.stable.*what)};
}

/// False while no replica of the candidate is known: their names may not have been looked up yet.
bool is_out(Pool& pool, std::span<const ReplicaKey> candidates, Moment now) {
  return !candidates.empty() && std::ranges::none_of(candidates, [&](const ReplicaKey& key) {
    const auto state = pool.health().of(key, now).state;
    return state == ReplicaState::up || state == ReplicaState::starting;
  });
}

Word word_of(metrics::compare::comparison::Gate gate) {
  using metrics::compare::comparison::Gate;
  switch (gate) {
    case Gate::pass:
      return Word::pass;
    case Gate::worse:
      return Word::worse;
    case Gate::unknown:
      break;
  }
  return Word::unknown;
}

std::string joined(const std::vector<std::string>& sentences) {
  std::string all;
  for (const auto& one : sentences) all += (all.empty() ? "" : "; ") + one;
  return all;
}

bool is_same_step(Reason reason) {
  return reason == Reason::pause || reason == Reason::resume || reason == Reason::unknown;
}

}  // namespace

Tick Follower::look(Pool& pool, std::span<const ReplicaKey> candidates, const Ended& ended, const config::Slo* slo,
                    Moment now) {
  if (const auto wait = longest_wait(ended, now))
    pool.note_overdue(now - std::chrono::duration_cast<Moment::duration>(*wait));
  const auto figures = pool.split();
  Tick tick;
  tick.now = now;
  tick.gate = gate_;
  tick.why = gate_why_;
  tick.answers = gate_answers_;
  tick.passes_but_for_answers = gate_passes_but_for_answers_;
  tick.failures = since(counted_, figures);
  tick.refusals = drawn_since(counted_, figures, &SideCounts::refused);
  tick.hangs = drawn_since(counted_, figures, &SideCounts::overdue);
  counted_ = figures;
  tick.misses = judge(ended, slo, now);
  tick.candidate_is_out = is_out(pool, candidates, now);
  return tick;
}

void Follower::moved(Reason reason, const SplitFigures& split, Moment now) {
  if (is_same_step(reason)) return;
  step_began_ = judged_ = now;
  conversations_.clear();
  ask_anew(now + gate_every);
  counted_ = split;
}

void Follower::ask_anew(Moment next) {
  ++step_;
  gate_.reset();
  gate_answers_.clear();
  gate_passes_but_for_answers_ = false;
  gate_why_ = no_comparison_yet;
  next_gate_ = next;
}

bool Follower::gate_is_due(Moment now) const {
  const auto state = machine.standing().state;
  return (state == State::shadow || state == State::live || state == State::paused) && now >= next_gate_;
}

std::uint64_t Follower::gate_asked(Moment now) {
  next_gate_ = now + gate_every;
  return step_;
}

void Follower::gate_said(std::uint64_t question, const metrics::compare::comparison::GateResult& gate) {
  if (question != step_) return;
  gate_ = word_of(gate.word);
  gate_answers_ = gate.answers;
  gate_passes_but_for_answers_ = gate.but_for_answers == metrics::compare::comparison::Gate::pass;
  auto reasons = gate_ == Word::worse ? gate.worse : gate.unknown;
  const bool may_differ = machine.settings().answers == config::OtherAnswers::any;
  if (may_differ && std::erase(reasons, gate_answers_) > 0 && reasons.empty())
    reasons = {"answers: they differ, which does not count"};
  gate_why_ = joined(reasons);
}

/// Returns how long a stream may wait for its first token before it counts as one that hangs: ten times the p99 of the
/// stable side's last streams, and 10 s at least. Nothing where that is not known, or there is no live step. The
/// evidence holds for any time that is looked up from the past.
std::optional<config::Seconds> Follower::longest_wait(const Ended& ended, Moment now) {
  if (machine.share() <= 0 || machine.share() >= 1) return std::nullopt;
  if (now < next_wait_) return wait_;
  next_wait_ = now + gate_every;
  const auto& settings = machine.settings();
  std::vector<double> waits;
  for (const auto* const sample : ended.since(now - wait_window)) {
    if (sample->role != metrics::Role::primary || ended.names.text(sample->pool) != settings.pool) continue;
    if (!sample->stream || std::isnan(sample->ttft) || sample->config == 0) continue;
    if (ended.names.text(sample->config) != settings.candidate) waits.push_back(sample->ttft);
  }
  if (waits.size() < least_waits) return wait_ = std::nullopt;
  const auto p99 = waits.begin() + static_cast<std::ptrdiff_t>((waits.size() - 1) * 99 / 100);
  std::ranges::nth_element(waits, p99);
  return wait_ = config::Seconds(std::max(least_wait.count(), 10 * *p99));
}

/// Judges the conversations of the clients' requests that ended since the last look by the objective.
Counts Follower::judge(const Ended& ended, const config::Slo* slo, Moment now) {
  const auto& settings = machine.settings();
  Counts counts;
  if (slo == nullptr || machine.share() <= 0) return counts;
  // The samples that came at the moment of the last look were counted then.
  for (const auto* const sample : ended.since(judged_ + Moment::duration(1))) {
    if (sample->role != metrics::Role::primary || ended.names.text(sample->pool) != settings.pool ||
        sample->config == 0)
      continue;
    using metrics::compare::samples::Attainment, metrics::compare::samples::Since;
    const auto attainment = metrics::compare::samples::judge(*slo, *sample, Since::arrival);
    if (attainment != Attainment::met && attainment != Attainment::missed) continue;
    const bool of_candidate = ended.names.text(sample->config) == settings.candidate;
    const bool missed = attainment == Attainment::missed;
    // Whole conversations are drawn for a side, so each counts once, and misses once.
    bool is_new = true, misses_first = missed;
    if (sample->group != 0 && conversations_.size() < most_conversations) {
      const auto [known, added] = conversations_.try_emplace(sample->group, false);
      is_new = added;
      misses_first = missed && !known->second;
      known->second = known->second || missed;
    }
    if (is_new) ++(of_candidate ? counts.candidate : counts.stable);
    if (misses_first) ++(of_candidate ? counts.candidate_bad : counts.stable_bad);
  }
  judged_ = now;
  return counts;
}

namespace mc = metrics::compare;

SplitGate::SplitGate(std::shared_ptr<Names> names, std::span<const Sample* const> ended, const SplitSides& sides)
    : names_(std::move(names)) {
  const auto pool = names_->of(sides.pool), candidate = names_->of(sides.candidate);
  const auto stable = names_->of(sides.stable);
  for (const auto* const sample : ended) {
    if (sample->role != metrics::Role::primary || sample->pool != pool || sample->config == 0) continue;
    samples_.push_back(*sample);
    if (sample->config != candidate) samples_.back().config = stable;
  }
  options_.a = {mc::sides::By::config, stable, metrics::Role::primary};
  options_.b = {mc::sides::By::config, candidate, metrics::Role::primary};
  options_.slo = sides.slo;
}

Judged SplitGate::judge() const {
  Judged judged;
  judged.comparison = mc::comparison::compare(samples_, *names_, options_);
  judged.gate = mc::comparison::gate_of(judged.comparison);
  return judged;
}

}  // namespace weir::balancer::rollout

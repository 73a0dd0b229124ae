#include "balancer/replica_set.hpp"

#include <algorithm>
#include <utility>

namespace weir::balancer {

std::vector<ReplicaIndex> ReplicaSet::set(std::span<const ReplicaSpec> specs, Moment now) {
  if (serials_ == 0) first_set_ = specs.size();
  std::vector<bool> stays(replicas_.size());
  std::vector<ReplicaIndex> indices;
  for (const ReplicaSpec& spec : specs) {
    const ReplicaIndex index = index_of(spec, now);
    PoolReplica& replica = *replicas_[index];
    if (spec.draining && !replica.spec.draining) replica.left = now;
    if (!spec.draining && replica.spec.draining) replica.health.drained(now);
    replica.spec = spec;
    replica.health.set(spec.health);
    replica.removed = false;
    indices.push_back(index);
    stays.resize(replicas_.size());
    stays[index] = true;
  }
  for (PoolReplica& replica : all()) {
    if (replica.removed || stays[replica.key.index]) continue;
    replica.removed = true;
    replica.left = now;
  }
  for (ReplicaIndex i = 0; i < replicas_.size(); ++i) drop_if_gone(i);
  return indices;
}

ReplicaIndex ReplicaSet::index_of(const ReplicaSpec& spec, Moment now) {
  auto found = std::ranges::find_if(replicas_, [&spec](const auto& replica) {
    return replica && replica->spec.name == spec.name && replica->spec.url == spec.url;
  });
  if (found == replicas_.end()) {
    found = std::ranges::find_if(replicas_, [](const auto& replica) { return replica == nullptr; });
    if (found == replicas_.end()) found = replicas_.emplace(replicas_.end());
    const bool from_the_start = serials_ < first_set_;
    const auto index = static_cast<ReplicaIndex>(found - replicas_.begin());
    *found = std::make_unique<PoolReplica>(spec, ReplicaKey{index, ++serials_}, from_the_start, now);
  }
  return static_cast<ReplicaIndex>(found - replicas_.begin());
}

void ReplicaSet::drop_if_gone(ReplicaIndex index) {
  auto& replica = replicas_[index];
  if (replica && replica->removed && replica->ledger.gauges().in_flight == 0) replica.reset();
}

PoolReplica* ReplicaSet::find(const ReplicaKey& key) const {
  if (key.index >= replicas_.size()) return nullptr;
  PoolReplica* const replica = replicas_[key.index].get();
  return replica != nullptr && replica->key.serial == key.serial ? replica : nullptr;
}

ReplicaKey ReplicaSet::key_at(ReplicaIndex index) const {
  return {index, replicas_.at(index) ? replicas_[index]->key.serial : 0};
}

bool ReplicaSet::may_eject() const {
  std::size_t all = 0, out = 0;
  for (const PoolReplica& replica : named()) {
    if (!replica.takes_new()) continue;
    ++all;
    if (!replica.is_in()) ++out;
  }
  return 2 * (out + 1) <= all;
}

bool ReplicaSet::may_call_hung(const PoolReplica& replica) const {
  return replica.is_in() ? may_eject() : std::ranges::any_of(all(), &PoolReplica::is_in);
}

bool ReplicaSet::is_odd(const PoolReplica& suspect, Topic topic, std::uint32_t enough, Moment now) const {
  const auto ends_of = [&](const PoolReplica& one) { return one.evidence.counts({}, topic, now); };
  const auto mostly_refuses = [](const Evidence::Counts& ends) { return 2 * ends.refused > ends.answers(); };
  const Evidence::Counts own = ends_of(suspect);
  if (own.answers() < enough || !mostly_refuses(own)) return false;
  std::size_t refusing = 1, answering = 0;
  Evidence::Counts others;
  for (const PoolReplica& peer : peers_of(suspect)) {
    const Evidence::Counts ends = ends_of(peer);
    if (ends.answers() == 0) continue;
    ++(mostly_refuses(ends) ? refusing : answering);
    if (!mostly_refuses(ends)) others += ends;
  }
  return refusing <= answering && others.answers() >= enough && 4 * others.refused < others.answers();
}

bool ReplicaSet::none_up() const {
  return std::ranges::none_of(all(), [](const PoolReplica& replica) {
    return replica.takes_new() && replica.health.view().state != ReplicaState::down;
  });
}

bool ReplicaSet::another_is_left(std::span<const Serial> tried, Serial beside) const {
  return std::ranges::any_of(all(), [&](const PoolReplica& replica) {
    return replica.takes_new() && !replica.health.view().refuses && replica.key.serial != beside &&
           std::ranges::find(tried, replica.key.serial) == tried.end();
  });
}

std::optional<std::uint32_t> BatchSlots::at(Moment now) const {
  constexpr double remembered = 60;
  return slots_ && metrics::seconds(now - seen_) < remembered ? slots_ : std::nullopt;
}

void BatchSlots::look(const TokenLedger& ledger, const ReplicaTime& times, Moment now) {
  const Gauges gauges = ledger.gauges();
  const std::uint32_t running = gauges.in_flight - gauges.pending + 1;
  if (slots_ && running > *slots_) slots_.reset();
  if (gauges.pending == 0 || gauges.streaming < 4) return;
  const TimeModel time = times.model(now);
  const double step = time.step_of(gauges.streaming, static_cast<double>(gauges.context));
  const double prompt = time.token * static_cast<double>(gauges.prefill_left) / gauges.pending;
  const double worked = gauges.worked_seconds, since_end = gauges.seconds_since_end;
  const bool keeps_waiting =
      worked > 3 * prompt + 4 * step && since_end < 2 * prompt + 4 * step && worked - since_end > 2 * prompt + 3 * step;
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

Tokens PoolReplica::allowance() const {
  return 2 * (health.view().finished + ledger.finished_unseen(health.view().since));
}

ReplicaView PoolReplica::view(Moment now) {
  const Health::View seen = health.view();
  ReplicaView view;
  static_cast<Gauges&>(view) = ledger.gauges();
  static_cast<ReplicaLimits&>(view) = {kv_tokens(), context(), longest_prompt(), spec.max_in_flight,
                                       spec.max_queued_tokens};
  view.index = key.index;
  view.weight = spec.weight;
  view.time = time.model(now);
  view.silent_seconds = ledger.silent_seconds(now);
  view.slots = slots.at(now);
  view.fresh = seen.back_since && now - *seen.back_since < Health::longest_start;
  view.refuses = seen.refuses;
  view.out = health.out();
  view.suspected = suspicion.is_grave();
  view.draining = spec.draining;
  view.asleep = told.asleep;
  view.full = evidence.advise({}, now).full;
  if (seen.state == ReplicaState::starting) view.allowance = allowance();
  return view;
}

}  // namespace weir::balancer

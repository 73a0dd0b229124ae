#include "balancer/replica_set.hpp"

#include <algorithm>

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
  if (replica && replica->removed && replica->ledger.in_flight() == 0) replica.reset();
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
    return replica.takes_new() && replica.health.state() != ReplicaState::down;
  });
}

bool ReplicaSet::another_is_left(std::span<const Serial> tried, Serial beside) const {
  return std::ranges::any_of(all(), [&](const PoolReplica& replica) {
    return replica.takes_new() && !replica.health.refuses() && replica.key.serial != beside &&
           std::ranges::find(tried, replica.key.serial) == tried.end();
  });
}

}  // namespace weir::balancer

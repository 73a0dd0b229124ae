#include "balancer/peers.hpp"

#include <algorithm>
#include <cstddef>

namespace weir::balancer {

bool is_odd(const ReplicaSet& replicas, const PoolReplica& suspect, Moment now) {
  if (!suspect.answers.mostly_bad(now)) return false;
  AnswerWindow::Counts peers;
  for (const PoolReplica& replica : replicas.peers_of(suspect)) {
    const auto peer = replica.answers.counts(now);
    peers.answers += peer.answers;
    peers.bad += peer.bad;
  }
  return peers.answers >= AnswerWindow::size && 20 * peers.bad < peers.answers;
}

void eject_if_odd(const ReplicaSet& replicas, PoolReplica& suspect, Moment now) {
  if (!suspect.answers.has_witnesses(now) || !is_odd(replicas, suspect, now) || !replicas.may_eject()) return;
  suspect.health.odd_one_out(now);
  suspect.answers.clear();
}

bool note_end(const ReplicaSet& replicas, PoolReplica& replica, Sign sign, const Caller& caller, Moment now) {
  const bool good = sign == Sign::answered && caller.gives_work;
  if (good || sign == Sign::failed) replica.ends.add(!good, now);
  if (good) replica.failed_clients.answered(caller.client, now);
  if (sign != Sign::failed) return false;
  if (replica.health.failures() == 0) replica.failed_clients.begin();
  replica.failed_clients.failed(caller.client);
  if (replica.failed_clients.several()) return true;
  const std::size_t failures = replica.health.failures() + 1;
  return !replica.failed_clients.serves_others(now) &&
         std::ranges::any_of(replicas.peers_of(replica), [&](const PoolReplica& peer) {
           return peer.failed_clients.witnesses_for(caller.client, failures, peer.ends.counts(now), now);
         });
}

}  // namespace weir::balancer

// Reports to a pool what the attempts of one request show of their replicas' health.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <optional>

#include "balancer/evidence.hpp"
#include "balancer/health.hpp"
#include "balancer/pool_health.hpp"
#include "balancer/story/attempt.hpp"

namespace weir::balancer::story {

/// Returns nothing where the attempt says nothing of the replica: the client left, weir lacked something of its own,
/// the replica refused what weir had added.
std::optional<Sign> sign_of(const AttemptOver& over);

/// True if the replica answered with an error of its own. If a second replica fails the request, too, the request is to
/// blame, and no such error of it counts.
bool may_be_the_requests_fault(const AttemptOver& over);

/// Reports to a pool what the attempts of one request show.
class HealthEvidence {
 public:
  /// `may_be_empty`: the request asks for a token at most. The caller outlives this.
  explicit HealthEvidence(const Caller& caller, bool may_be_empty = false)
      : caller_(caller), may_be_empty_(may_be_empty) {}

  /// Returns true if the attempt speaks against its replica, and the replica is out now.
  bool report(PoolHealth& health, const ReplicaKey& replica, const AttemptOver& over, Moment now);
  /// No second replica has failed the request: the one that did is to blame.
  void settle(PoolHealth& health, Moment now);

 private:
  const Caller& caller_;
  const bool may_be_empty_;
  boost::container::small_vector<Serial, 1> failed_by_;  ///< One request speaks once against a replica.
  bool request_is_to_blame_ = false;                     ///< Two replicas have failed it.
  ReplicaKey blamed_;  ///< The replica that answered with an error of its own, until that counts. A serial of 0: none.
};

}  // namespace weir::balancer::story

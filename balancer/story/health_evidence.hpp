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
/// blame, and later failures are ignored.
bool may_be_the_requests_fault(const AttemptOver& over);

/// Reports to a pool what the attempts of one request show.
class HealthEvidence {
 public:
  /// `may_be_empty`: the request asks for a token at most; `may_be_short`: for few. The caller outlives this.
  explicit HealthEvidence(const Caller& caller, bool may_be_empty = false, bool may_be_short = true)
      : caller_(caller), may_be_empty_(may_be_empty), may_be_short_(may_be_short) {}

  /// Returns true if the attempt speaks against its replica, and the replica is out now.
  bool report(PoolHealth& health, const ReplicaKey& replica, const AttemptOver& over, Moment now);
  /// Reports an error that no second replica has given, too: `failed` if one was asked, else `failed_alone`.
  void settle(PoolHealth& health, Sign as, Moment now);

 private:
  const Caller& caller_;
  const bool may_be_empty_, may_be_short_;
  bool request_is_to_blame_ = false;  ///< Two replicas have failed the request.
  boost::container::small_vector<Serial, 1> failed_by_;  ///< One request speaks once against a replica.
  /// The replica that answered with an error of its own. A serial of 0: none did. The error counts if no
  /// second replica answers in the same way.
  ReplicaKey blamed_;
};

}  // namespace weir::balancer::story

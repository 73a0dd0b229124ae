// What an attempt shows of its replica's health.
#pragma once

#include <optional>

#include "balancer/failed_clients.hpp"
#include "balancer/health.hpp"
#include "proxy/exchange/answer_handler.hpp"

namespace weir::proxy::exchange {

/// Nothing, where the attempt says nothing of the replica: the client left, weir lacked something of its own, the
/// replica refused what weir had added.
std::optional<balancer::Sign> sign_of(const AttemptResult& result);

/// The replica answered with an error of its own. Where a second replica does so, too, the request is to blame, and the
/// errors of further replicas count against nobody either.
bool may_be_the_requests_fault(const AttemptResult& result);

/// Tells a pool what the attempts of one request show of its replicas.
class Signs {
 public:
  explicit Signs(const balancer::Caller& caller) : caller_(caller) {}

  /// Returns true if the attempt speaks against its replica, and the replica is out now.
  bool report(balancer::Pool& pool, const balancer::ReplicaKey& replica, const AttemptResult& result, Moment now);
  /// Reports an error that no second replica has given, too: `failed` if one was asked, else `failed_alone`.
  void settle(balancer::Pool& pool, balancer::Sign as, Moment now);
  const balancer::Caller& caller() const { return caller_; }

 private:
  const balancer::Caller caller_;
  /// This replica answered with an error of its own. The error counts if no second replica answers in the same way.
  std::optional<balancer::ReplicaKey> blamed_;
  bool request_is_to_blame_ = false;  ///< Two replicas have answered it in that way.
};

}  // namespace weir::proxy::exchange

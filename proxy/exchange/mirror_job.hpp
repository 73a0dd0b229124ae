// A client's request as it is mirrored: what shadows need to send the same to a replica of theirs. The stream loop
// makes the job and posts it; the shadows' thread does all the rest.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "balancer/evidence.hpp"
#include "metrics/moment.hpp"
#include "metrics/wire/request/facts.hpp"
#include "proxy/fleet/snapshot.hpp"

namespace weir::proxy::exchange {

struct MirrorJob {
  std::shared_ptr<const fleet::Snapshot> snapshot;
  std::shared_ptr<balancer::Pool> primary_pool;                      ///< The client's request is served there.
  std::vector<std::shared_ptr<const fleet::ShadowRuntime>> shadows;  ///< Each gets a copy.
  std::string head_bytes;                                            ///< A head that has passed the gate.
  std::shared_ptr<const std::string> body;                           ///< The primary's own bytes.
  std::shared_ptr<const metrics::wire::RequestFacts> facts;
  std::string id;           ///< The primary's.
  balancer::Caller caller;  ///< Whose the request is.
  metrics::Moment received{};
  std::chrono::system_clock::time_point time;
  /// The primary's client has left. The primary's loop sets it.
  std::shared_ptr<std::atomic<bool>> client_left = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace weir::proxy::exchange

// The settings of one replica, as a pool takes them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "balancer/tokens.hpp"
#include "config/settings.hpp"

namespace weir::balancer {

struct ReplicaSpec {
  std::string name;
  std::string url;  ///< Name and url together say who the replica is: another url is another replica.
  /// Opaque pointer that the pool returns with each lease.
  std::shared_ptr<void> subject{};
  double weight = 1.0;  ///< Above 0.
  std::optional<Tokens> kv_tokens;
  std::optional<Tokens> max_context;
  std::optional<std::uint32_t> max_in_flight;
  config::Health health{};
  std::optional<Tokens> max_queued_tokens{};  ///< Bounds prefill_left. A longer prompt is taken when nothing is queued.
  bool max_context_refuses = false;           ///< A prompt that is surely longer than max_context never goes there.
  bool candidate = false;                     ///< Belongs to the candidate's side of the pool's split.
  std::string config{};                       ///< Replicas of one configuration learn their times together.
  bool draining = false;                      ///< The replica takes nothing new and keeps its requests.
};

/// An engine's report of itself. Its limits stand in for those that the settings leave open.
struct EngineLimits {
  std::optional<Tokens> kv_tokens, max_context;
  bool asleep = false;  ///< It computes nothing until somebody wakes it.
};

}  // namespace weir::balancer

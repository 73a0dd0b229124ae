// A replica as one decision sees it, and as the settings and its engine describe it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "balancer/replica_time.hpp"
#include "balancer/tokens.hpp"
#include "config/settings.hpp"

namespace weir::balancer {

/// The limits of a replica, by the settings, else as its engine told them. Nothing: no limit is known.
struct ReplicaLimits {
  std::optional<Tokens> kv_tokens;
  std::optional<Tokens> max_context;
  std::optional<Tokens> longest_prompt;  ///< A longer prompt never goes here. Nothing: the engine is to judge.
  std::optional<std::uint32_t> max_in_flight;
  std::optional<Tokens> max_queued_tokens;
};

/// The cost of the request's model at a replica.
struct SwitchCost {
  double loading_seconds = 0;   ///< The loads of models under way there take so long in all.
  double load_share = 0;        ///< The chance that the replica has to load the request's model.
  double load_seconds = 0;      ///< The request waits so long for its model: see SwitchPrices.
  double eviction_seconds = 0;  ///< Others lose so much whose model is put away for it.
};

struct ReplicaView : Gauges, ReplicaLimits, SwitchCost {
  ReplicaIndex index = 0;
  double weight = 1;
  TimeModel time;
  double silent_seconds = 0;           ///< For so long no stream has had a token that was to get some.
  std::optional<std::uint32_t> slots;  ///< So many sequences the engine was seen to run at a time, while more waited.
  Tokens cached = 0;                   ///< The replica is believed to hold so much of the prompt. Below the prompt.
  double waste = 0;    ///< The price, in tokens, of what the replica would compute although another candidate holds it.
  bool fresh = false;  ///< The replica has come, or come back, within a minute.
  double rank = 0;     ///< For the request's session, the highest first. 0: it has none.
  bool is_home = false;      ///< The state that the request names lies here.
  bool tried = false;        ///< The replica already had the request.
  bool refuses = false;      ///< Refuses connections.
  bool out = false;          ///< Ejected or down.
  bool suspected = false;    ///< Silent for far longer than its books explain.
  bool draining = false;     ///< Takes nothing new.
  bool asleep = false;       ///< The engine says that it sleeps.
  bool other_side = false;   ///< A split gives the request to the other replicas of the pool.
  bool reserved = false;     ///< Kept free for another request.
  bool full = false;         ///< The replica has said that it has no room, or has just failed.
  bool avoided = false;      ///< The replica has failed requests like this one lately: see Evidence.
  bool lacks_model = false;  ///< Others list the request's model, and this one does not: see ListedModels.
  /// A replica that starts may hold no more prompt tokens, or one request. Nothing: it does not start.
  std::optional<Tokens> allowance;

  /// Returns how many tokens of a prompt the replica has to compute.
  Tokens uncached(Tokens prompt) const { return prompt > cached ? prompt - cached : 0; }
  /// A prompt longer than the limit may go where nothing is queued.
  bool at_limit(Tokens prompt) const {
    if (reserved || (max_in_flight && in_flight >= *max_in_flight)) return true;
    return max_queued_tokens && prefill_left > 0 && prefill_left + uncached(prompt) > *max_queued_tokens;
  }
  /// A replica that starts may hold one request of any size.
  bool may_hold(Tokens prompt) const {
    return !allowance || in_flight == 0 || prefill_left + uncached(prompt) <= *allowance;
  }

  /// For policies that count requests. A replica that fails fast has little in flight, so its failures count.
  double requests_by_weight() const { return (in_flight + recent_failures) / weight; }
};

// The settings of one replica, as a pool takes them.

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

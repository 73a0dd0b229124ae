// A replica of a pool: its settings, its books, and what its pool knows of its health and its speed. A Pool owns it and
// touches it under its mutex; leases point at its StreamedTokens, so its address stays.
#pragma once

#include <cstdint>
#include <optional>

#include "balancer/evidence.hpp"
#include "balancer/health.hpp"
#include "balancer/model_list.hpp"
#include "balancer/placement.hpp"
#include "balancer/replica_spec.hpp"
#include "balancer/replica_time.hpp"
#include "balancer/replica_view.hpp"
#include "balancer/residency.hpp"
#include "balancer/suspicion.hpp"
#include "balancer/token_ledger.hpp"
#include "balancer/tokens.hpp"
#include "metrics/names.hpp"

namespace weir::balancer {

/// A request that went to a busy replica though this one was idle, and the seconds by which they were compared.
struct PassedOver {
  Moment at{};
  ReplicaKey chosen;
  double first_token = 0, first_token_there = 0;  ///< Expected here, and at the chosen one.
  double waste = 0;                               ///< What it would have cost beside that to serve it here.
  bool weighs_less = false;                       ///< Than the chosen one, by the settings.
};

/// The size of an engine's batch, as far as the engine was seen to keep prompts waiting though it had nothing else to
/// compute. An engine that computes what it was believed to have in its cache looks the same once, but not twice with
/// as many requests that run.
class BatchSlots {
 public:
  /// Returns the size, if it was seen within the last minute.
  std::optional<std::uint32_t> at(Moment now) const;
  /// A first token is about to come, as of the ledger's latest time.
  void look(const TokenLedger& ledger, const ReplicaTime& times, Moment now);

 private:
  std::optional<std::uint32_t> slots_;
  Moment seen_{};
  std::uint32_t suspected_ = 0;
};

/// Counts the choices that lacked something the policy needs.
struct Fallbacks {
  std::uint64_t kv_full = 0, unknown_prompt = 0, panic = 0;
};

struct PoolReplica {
  PoolReplica(const ReplicaSpec& wanted, const ReplicaKey& place, bool known, Moment now)
      : spec(wanted),
        key(place),
        identity(metrics::hash_of_name(wanted.url.empty() ? wanted.name : wanted.url)),
        ledger(now),
        health(wanted.health, known, now),
        left(now) {}

  /// True if requests that come may go to it, as far as the settings say.
  bool takes_new() const { return !removed && !spec.draining && !closed; }
  /// True if requests that come may go to it, as far as its health and its engine say, too.
  bool is_in() const { return takes_new() && !health.out() && !told.asleep; }

  std::optional<Tokens> kv_tokens() const { return spec.kv_tokens ? spec.kv_tokens : told.kv_tokens; }
  std::optional<Tokens> context() const { return spec.max_context ? spec.max_context : told.max_context; }
  /// Returns the longest prompt that goes there; nothing where the engine is to judge.
  std::optional<Tokens> longest_prompt() const;
  /// Returns how many prompt tokens the replica may hold while it starts; one request it may hold in any case.
  Tokens allowance() const;
  /// Returns its gauges as of the ledger's latest time.
  ReplicaView view(Moment now);

  ReplicaSpec spec;
  EngineLimits told;
  ListedModels models;
  RecentModels recent_models;
  FirstTokens first_tokens;
  const ReplicaKey key;
  const std::uint64_t identity;  ///< Hash of its url: the same after a reload or restart, and in all pools.
  TokenLedger ledger;
  ReplicaTime time{std::make_shared<StepTimes>()};
  BatchSlots slots;
  Health health;
  Evidence evidence;
  Suspicion suspicion;
  Moment lost_at = Moment::min();          ///< A request was last lost at work there.
  bool removed = false;                    ///< The settings no longer name it.
  bool closed = false;                     ///< Belongs to a candidate that gets no request.
  Moment left;                             ///< Since when it has been removed or draining.
  std::optional<WaitTicket> reserved_for;  ///< No other request may go there.
  PassedOver passed_over;
  Fallbacks fallbacks;
};

}  // namespace weir::balancer

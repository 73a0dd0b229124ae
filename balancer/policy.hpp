// Which of the replicas that may take a request gets it. One small class a policy; the pool owns one and calls it under
// its mutex. Adding a policy: a header beside least_queued_tokens.hpp, a line in make_policy, a word in the settings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>

#include "balancer/tokens.hpp"
#include "config/settings.hpp"

namespace weir::balancer {

/// A replica as a decision sees it.
struct Standing {
  ReplicaIndex index = 0;
  double weight = 1, speed = 1;
  Tokens prefill_left = 0, decode_left = 0, resident = 0;
  std::uint32_t in_flight = 0;
  std::uint32_t recent_failures = 0;  ///< Ended without an answer within the last second.
  bool tried = false;                 ///< This request has been there.
  std::optional<Tokens> kv_tokens, max_context;
  std::optional<std::uint32_t> max_in_flight;

  /// By what policies that count requests go. A replica that fails fast has little in flight: its failures count too.
  double requests_by_weight() const { return (in_flight + recent_failures) / weight; }
};

using Random = std::mt19937_64;

/// A number below `n` (> 0). Same seed, same numbers, with any standard library; the bias is below 2^-32.
inline std::size_t draw(Random& random, std::size_t n) { return static_cast<std::size_t>(random() % n); }

class ReplicaPolicy {
 public:
  virtual ~ReplicaPolicy() = default;
  /// Returns a position in `replicas`, which is never empty and in the order of the pool.
  virtual std::size_t choose(Tokens prompt, std::span<const Standing> replicas, Random& random) = 0;
};

std::unique_ptr<ReplicaPolicy> make_policy(config::Policy policy, double decode_weight);

}  // namespace weir::balancer

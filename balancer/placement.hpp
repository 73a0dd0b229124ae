// A request brings a PlacementRequest to a pool that it asks for a replica, and is admitted, waits, or is refused.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "balancer/affinity.hpp"
#include "balancer/evidence.hpp"
#include "balancer/lease.hpp"
#include "balancer/tokens.hpp"
#include "metrics/wire/request/facts.hpp"
#include "metrics/wire/request/prompt_prefix.hpp"

namespace weir::balancer {

struct PlacementRequest {
  std::shared_ptr<const metrics::wire::RequestFacts> facts;
  /// The replicas that already had the request. One of them is chosen only if there is no other.
  std::vector<Serial> tried{};
  std::uint64_t fair_key = 0;  ///< The queue is fair between keys.
  double share = 1;            ///< The key's share of the turns, relative to other keys'. Above 0.
  std::size_t bytes = 0;       ///< The body counts so much against the queue's bound.
  /// A request that has waited before keeps its deadline. Nothing: the pool's limits make one.
  std::optional<Moment> deadline{};
  bool front_of_queue = false;     ///< A replica had it and failed: it goes before those that never had a replica.
  std::shared_ptr<void> waiter{};  ///< Comes back with the grant. Null: the request cannot wait.
  std::uint64_t lot = 0;           ///< Decides the side of a split. 0: its conversation does.
  Ties ties{};
  /// Null, or without anchors: nothing is known of what replicas hold of the prompt.
  std::shared_ptr<const metrics::wire::PromptPrefix> prefix{};
  Caller caller{};  ///< Whose request it is, and for what. A replica that fails such requests gives way to others.
};

using WaitTicket = std::uint64_t;

struct Admitted {
  Lease lease;
};

/// The request waits. A grant comes to the pool's sink, unless the request leaves before; it is to leave at the
/// deadline.
struct Waiting {
  WaitTicket ticket = 0;
  Moment deadline{};
};

struct Refused {
  enum class Reason : std::uint8_t {
    no_replica,        ///< The pool has none, and expects none or the request cannot wait.
    busy,              ///< No replica may take the request now, and it cannot wait.
    too_long,          ///< The request is longer than any of them can ever take.
    queue_full,        ///< So many requests wait as may: the longest key's newest is refused.
    queue_bytes_full,  ///< The same for the bytes of their bodies.
    too_late,          ///< By the rate of the last seconds, the turn of the request would come after its deadline.
    expired,           ///< The deadline passed, or the client left, while the request waited.
  };
  Reason reason = Reason::no_replica;
  unsigned retry_after = 5;  ///< Seconds, 1 to 40; too_long does not use it.
};

using Offered = std::variant<Admitted, Waiting, Refused>;

/// A request that waited is admitted, or pushed out of a full queue.
struct Granted {
  std::shared_ptr<void> waiter;
  std::variant<Lease, Refused> what;
};

/// A pool hands its grants to one sink, which outlives the pool.
class GrantSink {
 public:
  /// Posts the grants to where they belong and returns at once. Called on any thread, without the pool's mutex. A lease
  /// whose request has gone is dropped, which grants the next.
  virtual void grant(std::vector<Granted> granted) noexcept = 0;

 protected:
  ~GrantSink() = default;
};

struct PoolLimits {
  std::size_t queue = 256;  ///< So many requests may wait. 0: none waits.
  std::size_t queue_bytes = std::size_t{256} << 20;
  std::chrono::duration<double> queue_time{30};
  std::chrono::duration<double> queue_time_none_up{60};  ///< While all refuse connections, are down or drain.
  /// Replicas are to come where there is none yet: requests wait for them as they do while none is up.
  bool expects_replicas = false;
  std::optional<std::uint32_t> max_in_flight;  ///< For all replicas together.
  std::optional<Tokens> max_queued_tokens;     ///< For all replicas together, by their prefill_left.
};

// Grants gather while a pool's mutex is held, and go to the sink when it has been given back: whoever takes the mutex
// declares them first.

class PendingGrants {
 public:
  explicit PendingGrants(GrantSink* sink) : sink_(sink) {}
  PendingGrants(const PendingGrants&) = delete;
  ~PendingGrants() {
    if (!granted_.empty()) sink_->grant(std::move(granted_));
  }
  /// The grant or refusal of this request is for the caller, not for the sink.
  void keep(WaitTicket ticket) { kept_ticket_ = ticket; }
  void add(WaitTicket ticket, std::shared_ptr<void> waiter, std::variant<Lease, Refused> what) {
    if (ticket == kept_ticket_)
      kept_ = std::move(what);
    else
      granted_.push_back({std::move(waiter), std::move(what)});
  }
  std::optional<std::variant<Lease, Refused>> take_kept() { return std::exchange(kept_, std::nullopt); }

 private:
  GrantSink* sink_;
  WaitTicket kept_ticket_ = 0;
  std::optional<std::variant<Lease, Refused>> kept_;
  std::vector<Granted> granted_;
};

}  // namespace weir::balancer

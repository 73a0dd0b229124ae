// A pool of replicas behind four doors: offer, first token, end, leave. Thread-safe: one mutex, held for a decision and
// never across I/O. Nothing here waits, posts or reads a clock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/settings.hpp"
#include "metrics/moment.hpp"
#include "metrics/wire/request.hpp"

namespace weir::balancer {

using metrics::Moment;
using Tokens = std::uint64_t;

/// A replica's place in its pool: stable while the program runs, never given to another replica.
using ReplicaIndex = std::uint32_t;

struct ReplicaSpec {
  std::string name;
  double weight = 1.0;
  std::optional<Tokens> kv_tokens;
  std::optional<Tokens> max_context;
  std::optional<std::uint32_t> max_in_flight;
};

class Pool;

/// What is told at the end of a request.
struct End {
  bool answered = false;  ///< A successful answer: only from these the estimator and the speeds learn.
  std::optional<Tokens> prompt_tokens, cached_tokens, output_tokens;
};

/// How busy the replica was while a request ran there, this request not counted at its start.
struct Company {
  std::uint32_t in_flight_at_start = 0;
  double in_flight_mean = 0;  ///< Time-weighted, this request counted.
};

/// What a request owns while a replica works for it. Taken with the choice in one critical section; whatever happens,
/// its end gives back all that is left. Movable; one thread at a time.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  ~Lease();  ///< Leaves where end() was not called: gives everything back at the pool's latest known time.

  explicit operator bool() const { return pool_ != nullptr; }
  ReplicaIndex replica() const { return replica_; }
  Tokens prompt_estimate() const { return prompt_; }

  /// The first token came: the prompt leaves the replica's queue.
  void first_token(Moment now);
  /// Output tokens streamed: a relaxed atomic on the replica's own cache line, at most what the lease still holds.
  void tokens(std::uint32_t n);
  /// The replica's work is over. A request that ends before its first token without an answer leaves its prompt in the
  /// queue for 1 s more. The lease is empty afterwards.
  Company end(const End& end, Moment now);

 private:
  friend class Pool;
  std::shared_ptr<Pool> pool_;
  ReplicaIndex replica_ = 0;
  std::uint64_t ticket_ = 0;  ///< The ledger's entry.
  Tokens prompt_ = 0;
  Tokens output_left_ = 0;
  void* counter_ = nullptr;  ///< The replica's streamed-token counter.
};

struct Admitted {
  Lease lease;
};

/// No replica may take the request now.
struct Refused {
  enum class Reason : std::uint8_t { no_replica, busy, too_long };
  Reason reason = Reason::no_replica;
  unsigned retry_after = 5;  ///< Seconds, 1 to 60; meaningless for too_long.
};

using Offered = std::variant<Admitted, Refused>;

/// What a scrape shows of a replica.
struct ReplicaLoad {
  std::string name;
  Tokens prefill_left = 0, decode_left = 0, resident = 0;
  std::uint32_t in_flight = 0;
  double oldest_unanswered_seconds = 0;
  double busy_seconds = 0, prefill_seconds = 0, decode_seconds = 0;  ///< Integrals since the start.
  double speed = 1;
  std::vector<std::pair<std::string_view, std::uint64_t>> fallbacks;
};

class Pool : public std::enable_shared_from_this<Pool> {
 public:
  /// `seed` feeds ties and the random policies.
  static std::shared_ptr<Pool> make(config::Policy policy, double decode_weight, std::uint64_t seed);
  virtual ~Pool() = default;

  /// The one door for changes of the set: replicas are matched by name; one that is no longer named takes no more
  /// requests and keeps its index. Returns the index of each spec, in order.
  virtual std::vector<ReplicaIndex> set_replicas(std::span<const ReplicaSpec> specs, Moment now) = 0;

  /// Chooses a replica and takes a lease on it. `tried` are replicas this request has been to: chosen only if
  /// there is no other.
  virtual Offered offer(const metrics::wire::RequestFacts& facts, Moment now, std::span<const ReplicaIndex> tried = {}) = 0;

  virtual ReplicaLoad load(ReplicaIndex replica, Moment now) = 0;
  virtual std::uint32_t in_flight() const = 0;

 protected:
  friend class Lease;
  virtual void first_token(Lease& lease, Moment now) = 0;
  virtual Company end(Lease& lease, const End& end, Moment now) = 0;
  virtual void leave(Lease& lease) = 0;
};

}  // namespace weir::balancer

// A pool chooses a replica for each request and keeps the books of what its replicas have to do. A request comes to it
// three times: with its offer, with its first token and at its end. The pool is thread-safe: one mutex is held for a
// decision and never across I/O. Nothing here waits, posts or reads a clock.
//
// Time may arrive out of order, since callers read it before they get the mutex: the pool goes by the latest it was
// told.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "balancer/expected_output.hpp"
#include "balancer/finished_tokens.hpp"
#include "balancer/lease.hpp"
#include "balancer/policy/policy.hpp"
#include "balancer/replica_rates.hpp"
#include "balancer/token_estimator.hpp"
#include "balancer/token_ledger.hpp"
#include "balancer/tokens.hpp"
#include "config/settings.hpp"
#include "metrics/wire/request/facts.hpp"

namespace weir::balancer {

struct ReplicaSpec {
  std::string name;
  std::string url;  ///< With the name, who the replica is: another address is another replica.
  /// What a lease on it leads its owner to; the pool only hands it on.
  std::shared_ptr<void> subject{};
  double weight = 1.0;  ///< > 0
  std::optional<Tokens> kv_tokens;
  std::optional<Tokens> max_context;
  std::optional<std::uint32_t> max_in_flight;
};

struct Admitted {
  Lease lease;
};

/// No replica takes the request: there is none, all are busy, or it is longer than any of them can ever take.
struct Refused {
  enum class Reason : std::uint8_t { no_replica, busy, too_long };
  Reason reason = Reason::no_replica;
  unsigned retry_after = 5;  ///< In seconds, 1 to 60; it means nothing with too_long.
};

using Offered = std::variant<Admitted, Refused>;

/// The figures of a replica that a scrape shows.
struct ReplicaLoad {
  std::string name;
  Tokens prefill_left = 0, decode_left = 0, resident = 0;
  std::uint32_t in_flight = 0;
  double oldest_unanswered_seconds = 0;
  double busy_seconds = 0, prefill_seconds = 0, decode_seconds = 0;  ///< Integrals since the start.
  double speed = 1;
  /// Counts the choices that had worse grounds than the policy's, by reason. Every reason is listed, at 0 too.
  std::vector<std::pair<std::string_view, std::uint64_t>> fallbacks;
};

class Pool final : public std::enable_shared_from_this<Pool>, private Lessor {
 public:
  /// `seed` feeds ties and the random policies.
  static std::shared_ptr<Pool> make(config::Policy policy, double decode_weight, std::uint64_t seed);

  /// All changes of the set pass here. Replicas are matched by name and url; one that is no longer named takes no more
  /// requests, and gives its index back when its last lease has ended. Returns the index of each spec, in order.
  std::vector<ReplicaIndex> set_replicas(std::span<const ReplicaSpec> specs, Moment now);

  /// Chooses a replica and takes a lease on it. `tried` are replicas that this request has been to: one of them is
  /// chosen only if there is no other.
  Offered offer(const metrics::wire::RequestFacts& facts, Moment now, std::span<const ReplicaIndex> tried = {});

  /// All zero for a replica that is gone.
  ReplicaLoad load(ReplicaIndex replica, Moment now);
  std::uint32_t in_flight() const;

 private:
  struct Replica {
    explicit Replica(Moment now) : ledger(now), tested(now) {}

    ReplicaSpec spec;
    TokenLedger ledger;
    ReplicaRates rates;
    bool removed = false;
    double speed = 1;
    Moment tested{};                                ///< When something was last learned of its speed.
    std::uint64_t kv_full = 0, unknown_prompt = 0;  ///< Counts of fallbacks.
  };

  Pool(config::Policy policy, double decode_weight, std::uint64_t seed);

  Tokens first_token(const Holding& holding, Moment now) override;
  Concurrency end(Holding holding, const End& end, Moment now) override;

  /// Whatever frees room on a replica does it here: a lease's end, with or without end(), and a change of the set.
  /// `change` runs with the mutex held; what it returns is handed on when the mutex has been given back. A waiting
  /// queue adds its grants here: chosen after `change`, handed to their sink after the mutex.
  template <class Change>
  auto free_room(Moment now, Change change);

  // The mutex is held by the caller of everything below.
  Moment latest(Moment now);
  ReplicaIndex index_of(const ReplicaSpec& spec, Moment now);
  void drop_if_gone(ReplicaIndex index);
  ReplicaView view_of(ReplicaIndex index, std::span<const ReplicaIndex> tried) const;
  Refused refusal(Refused::Reason reason) const;
  void learn(Replica& replica, const metrics::wire::RequestFacts& facts, const End& end,
             const TokenLedger::Closed& closed);
  void update_speeds();
  void forget_untested_speeds();

  mutable std::mutex mutex_;
  Moment latest_ = Moment::min();
  std::vector<std::unique_ptr<Replica>> replicas_;  ///< Indexed by ReplicaIndex; leases point into them. Null: free.
  std::unique_ptr<policy::Policy> policy_;
  policy::Random random_;
  TokenEstimator estimator_;
  ExpectedOutput expected_output_;
  FinishedTokens finished_;
  TokenLedger::Ticket tickets_ = 0;
  std::uint32_t in_flight_ = 0;
  std::vector<ReplicaView> views_;  ///< The decision under way uses it; it is kept for its memory.
  std::vector<double> rates_;       ///< It is kept for its memory, too.
};

}  // namespace weir::balancer

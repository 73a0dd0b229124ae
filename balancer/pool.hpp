// A pool chooses a replica for each request and keeps the books of the work that its replicas have to do. A request
// comes to it three times: for its offer, with its first token and at its end. The pool is thread-safe: one mutex is
// held for a decision and never across I/O. Nothing here waits, posts or reads a clock.
//
// Time may arrive out of order, since callers read it before they get the mutex; the pool uses the latest time it was
// given.
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

#include "balancer/answer_window.hpp"
#include "balancer/expected_output.hpp"
#include "balancer/finished_tokens.hpp"
#include "balancer/health.hpp"
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
  std::string url;  ///< Name and url together say who the replica is: another url is another replica.
  /// A lease leads its owner to this; the pool only hands it on.
  std::shared_ptr<void> subject{};
  double weight = 1.0;  ///< It is > 0.
  std::optional<Tokens> kv_tokens;
  std::optional<Tokens> max_context;
  std::optional<std::uint32_t> max_in_flight;
  config::Health health{};
};

struct Admitted {
  Lease lease;
};

/// No replica takes the request: there is none, all are busy, or it is longer than any of them can ever take.
struct Refused {
  enum class Reason : std::uint8_t { no_replica, busy, too_long };
  Reason reason = Reason::no_replica;
  unsigned retry_after = 5;  ///< It is in seconds, 1 to 60; too_long does not use it.
};

using Offered = std::variant<Admitted, Refused>;

/// The figures of a replica that a scrape shows.
struct ReplicaLoad {
  std::string name;
  Tokens prefill_left = 0, decode_left = 0, resident = 0;
  std::uint32_t in_flight = 0;
  double oldest_unanswered_seconds = 0;
  double busy_seconds = 0, prefill_seconds = 0, decode_seconds = 0;  ///< These are integrals since the start.
  double speed = 1;
  /// Counts by reason the choices that lacked something the policy needs. Every reason is listed, at 0 too.
  std::vector<std::pair<std::string_view, std::uint64_t>> fallbacks;
};

/// What is known of a replica's health.
struct ReplicaHealth {
  ReplicaState state = ReplicaState::down;
  Moment since{};
  std::string reason;                           ///< A clause.
  std::chrono::duration<double> probe_after{};  ///< When to probe it next, after a probe.
};

/// What an engine tells of its own limits. They stand in for what the settings leave open.
struct EngineLimits {
  std::optional<Tokens> kv_tokens, max_context;
};

struct ReplicaChange {
  std::string replica;
  Health::Change change;
};

class Pool final : public std::enable_shared_from_this<Pool>, private Lessor {
 public:
  /// `seed` feeds ties and the random policies.
  static std::shared_ptr<Pool> make(config::Policy policy, double decode_weight, std::uint64_t seed);

  /// This is the only way to change the set. Replicas are matched by name and url. One that is no longer named takes no
  /// more requests, and gives its index back when its last lease has ended. Returns the index of each spec, in order.
  std::vector<ReplicaIndex> set_replicas(std::span<const ReplicaSpec> specs, Moment now);

  /// Chooses a replica and takes a lease on it. `tried` lists the replicas that already had this request: one of them
  /// is chosen only if there is no other.
  Offered offer(const metrics::wire::RequestFacts& facts, Moment now, std::span<const ReplicaIndex> tried = {});

  /// Takes what a request or a probe showed of a replica. With Sign::full, `full_for` is how long the replica asked to
  /// be left alone; 1 s if it did not say. Nothing happens for a replica that is gone.
  void report(const ReplicaKey& replica, Sign sign, Moment now,
              std::optional<std::chrono::duration<double>> full_for = {});
  /// Returns `down` for a replica that is gone.
  ReplicaHealth health(const ReplicaKey& replica, Moment now);
  /// Returns the changes of states since the last call, each once. Time alone makes some, so it is to be called often.
  std::vector<ReplicaChange> take_changes(Moment now);
  ReplicaKey key(ReplicaIndex replica) const;

  /// Takes what the replica's engine told. It stays until the engine tells otherwise, whatever set_replicas says.
  void engine_told(const ReplicaKey& replica, const EngineLimits& limits);

  /// Returns all zeros for a replica that is gone.
  ReplicaLoad load(ReplicaIndex replica, Moment now);
  std::uint32_t in_flight() const;

 private:
  struct Replica {
    Replica(const ReplicaSpec& wanted, std::uint64_t number, bool known, Moment now)
        : spec(wanted), serial(number), ledger(now), health(wanted.health, known, now), tested(now) {}

    ReplicaSpec spec;
    EngineLimits told;
    std::uint64_t serial;
    TokenLedger ledger;
    ReplicaRates rates;
    Health health;
    AnswerWindow answers;
    bool removed = false;
    double speed = 1;
    Moment tested{};                                           ///< Its speed was last learned then.
    std::uint64_t kv_full = 0, unknown_prompt = 0, panic = 0;  ///< These count fallbacks.
  };

  Pool(config::Policy policy, double decode_weight, std::uint64_t seed);

  Tokens first_token(const Holding& holding, Moment now) override;
  Concurrency end(Holding holding, const End& end, Moment now) override;

  /// Everything that frees room on a replica does it here: a lease's end, with or without end(), and a change of the
  /// set. `change` runs while the mutex is held. What it returns is handed on after the mutex has been released. A
  /// waiting queue adds its grants here: chosen after `change`, and handed to their sink after the mutex.
  template <class Change>
  auto free_room(Moment now, Change change);

  // The caller of everything below holds the mutex.
  Moment latest(Moment now);
  ReplicaIndex index_of(const ReplicaSpec& spec, Moment now);
  void drop_if_gone(ReplicaIndex index);
  Replica* find(const ReplicaKey& key) const;
  bool may_eject() const;
  void eject_the_odd_one(Replica& replica);
  void end_starts();
  ReplicaView view_of(ReplicaIndex index, std::span<const ReplicaIndex> tried) const;
  Refused refusal(Refused::Reason reason) const;
  void learn(Replica& replica, const metrics::wire::RequestFacts& facts, const End& end,
             const TokenLedger::Closed& closed);
  void update_speeds();
  void forget_untested_speeds();

  mutable std::mutex mutex_;
  Moment latest_ = Moment::min();
  std::vector<std::unique_ptr<Replica>> replicas_;  ///< They are indexed by ReplicaIndex, and leases point into them.
                                                    ///< Null is a free place.
  std::unique_ptr<policy::Policy> policy_;
  policy::Random random_;
  TokenEstimator estimator_;
  ExpectedOutput expected_output_;
  FinishedTokens finished_;
  TokenLedger::Ticket tickets_ = 0;
  std::uint64_t serials_ = 0;
  std::size_t first_set_ = 0;  ///< So many replicas the pool began with.
  std::uint32_t in_flight_ = 0;
  std::vector<ReplicaView> views_;  ///< The current decision uses it; it is kept for its memory.
  std::vector<double> rates_;       ///< It is kept for its memory, too.
};

}  // namespace weir::balancer

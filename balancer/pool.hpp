// A pool chooses a replica for each request and keeps the books of the work that its replicas have to do. A request
// comes to it for its offer, with its first token and at its end; one that waits may leave before. The pool is
// thread-safe: one mutex is held for a decision and never across I/O. Nothing here blocks, posts or reads a clock.
//
// A request that no replica may take now waits in the pool's queue (waiting_queue.hpp). Whatever makes room, time
// included, serves the queue before the mutex is given back, and hands the grants to the sink after it. While requests
// wait, a new one goes through the queue as well, so that it overtakes nobody whose turn it is.
//
// Time may arrive out of order, since callers read it before they get the mutex; the pool uses the latest time it was
// given.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "balancer/answer_window.hpp"
#include "balancer/eligibility.hpp"
#include "balancer/expected_output.hpp"
#include "balancer/failed_clients.hpp"
#include "balancer/finished_tokens.hpp"
#include "balancer/health.hpp"
#include "balancer/lease.hpp"
#include "balancer/placement.hpp"
#include "balancer/policy/policy.hpp"
#include "balancer/replica_rates.hpp"
#include "balancer/returns.hpp"
#include "balancer/suspicion.hpp"
#include "balancer/token_estimator.hpp"
#include "balancer/token_ledger.hpp"
#include "balancer/tokens.hpp"
#include "balancer/waiting_queue.hpp"
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
  std::optional<Tokens> max_queued_tokens{};  ///< By its prefill_left. A longer prompt is taken when nothing is queued.
  bool max_context_refuses = false;           ///< A prompt that is surely longer than max_context is not for it.
  bool draining = false;                      ///< It takes nothing new and keeps what it has.
};

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
  std::shared_ptr<void> subject;  ///< The replica's spec named it.
  Health::Change change;
};

/// A replica that may hang: its witnesses are to be asked, and what they say goes to Pool::testify.
struct Suspect {
  ReplicaKey key;
  std::shared_ptr<void> subject;  ///< The replica's spec named it.
  Moment since;
};

/// Grants gather while the pool's mutex is held, and go to the sink when it has been given back.
class PendingGrants {
 public:
  explicit PendingGrants(GrantSink* sink) : sink_(sink) {}
  PendingGrants(const PendingGrants&) = delete;
  ~PendingGrants() {
    if (!granted_.empty()) sink_->grant(std::move(granted_));
  }
  /// What becomes of this request is for the caller, not for the sink.
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

class Pool final : public std::enable_shared_from_this<Pool>, private LeaseOwner {
 public:
  /// A request that has had its turn and fitted nowhere while others went waits so long; then a replica is reserved.
  static constexpr std::chrono::seconds reserve_after{5};
  /// After a lease ended by replica_failed, that replica takes no request that it has failed for so long, and nothing
  /// from the queue. One that has just answered others well takes from the queue until so many requests in a row have
  /// failed: a client whose requests break off would keep it from everybody.
  static constexpr std::chrono::seconds rest_after_failure{1};
  static constexpr std::uint32_t failures_before_rest = 2;
  /// A replica is suspected to hang when none of its streams has got a token for so long. The suspicion stands, so that
  /// one witness is enough and others are preferred, when it was four times what its books predict; or when it has shown
  /// nothing for as long as a request that is not streamed was to take.
  static constexpr double least_suspect_seconds = 5, suspicion_factor = 4;
  /// The least silence that convicts a replica that answers its probes; the silence has to be eight times what its books
  /// predict, too: engines compile for 40 s. For what is not streamed, that is with the longest output that it may have, and
  /// for longer: another pool or another weir may have an answer made there, or a model loaded.
  static constexpr double least_convicting_seconds = 60, least_convicting_unstreamed_seconds = 300;
  static constexpr double conviction_factor = 8;
  /// After two replicas failed one request, an error of which no second replica was asked counts for nobody for so long.
  static constexpr std::chrono::seconds absolved_for{10};
  /// Before a replica's prefill rate is known, its prompts are waited for as if it did so many tokens a second.
  static constexpr double slowest_prefill = 100;
  /// The same for the output of a request that is not streamed.
  static constexpr double slowest_decode = 20;

  /// `seed` feeds ties and the random policies. Without a sink nobody waits.
  static std::shared_ptr<Pool> make(config::Policy policy, double decode_weight, std::uint64_t seed,
                                    GrantSink* sink = nullptr);
  void set_limits(const PoolLimits& limits, Moment now);

  /// Chooses in another way from now on. The books stay.
  void set_policy(config::Policy policy, double decode_weight);

  /// This is the only way to change the set. Replicas are matched by name and url. One that is no longer named takes no
  /// more requests, and gives its index back when its last lease has ended. Returns the index of each spec, in order.
  std::vector<ReplicaIndex> set_replicas(std::span<const ReplicaSpec> specs, Moment now);

  /// Chooses a replica and takes a lease on it. If none may take the request now, it waits, where it can.
  Offered offer(const PlacementRequest& placement, Moment now);
  /// The same for a request that cannot wait.
  Offered offer(const metrics::wire::RequestFacts& facts, Moment now, std::span<const Serial> tried = {}) {
    return offer(PlacementRequest{std::make_shared<const metrics::wire::RequestFacts>(facts), tried}, now);
  }
  /// Says that the client left or that the deadline passed. Returns what to tell the client; nothing if the request
  /// was not waiting any more: its grant is on the way and is to be taken.
  std::optional<Refused> leave(WaitTicket ticket, Moment now);
  /// True if a replica other than these is there that neither drains nor refuses connections.
  bool another_is_left(std::span<const Serial> tried, Serial beside) const;
  QueueFigures queue(Moment now);

  /// Takes what a request, by its caller, or a probe showed of a replica. With Sign::full, `full_for` is how long the
  /// replica asked to be left alone; 1 s if it did not say. Nothing happens for a replica that is gone.
  void report(const ReplicaKey& replica, Sign sign, Moment now,
              std::optional<std::chrono::duration<double>> full_for = {}, const Caller& caller = {});
  /// Takes an ejected replica back on probation: it starts slowly, and what it was ejected for is forgotten. Returns
  /// whether it was ejected.
  bool pardon(const ReplicaKey& replica, Moment now);
  /// Says that the replica has no address, and why, as a clause. Nothing happens for a replica that is gone.
  void unresolved(const ReplicaKey& replica, std::string_view reason, Moment now);
  /// Returns `down` for a replica that is gone.
  ReplicaHealth health(const ReplicaKey& replica, Moment now);
  /// Returns the changes of states since the last call, each once. Of a replica that is no longer named, it tells only
  /// that it hangs. Time alone makes some, so it is to be called often.
  std::vector<ReplicaChange> take_changes(Moment now);
  /// Returns the replicas that take_changes() has found to be silent for too long, each once.
  std::vector<Suspect> take_suspects();
  /// Takes what a witness says of a replica that is suspected to hang. `asked`: when the witness began to look.
  void testify(const ReplicaKey& replica, Testimony what, Moment asked, Moment now);
  ReplicaKey key(ReplicaIndex replica) const;

  /// Takes what the replica's engine told; nothing once that is over. The facts stay until the next call, whatever
  /// set_replicas says.
  void engine_told(const ReplicaKey& replica, const EngineLimits& limits);

  /// Returns all zeros for a replica that is gone, whoever has its index now.
  ReplicaLoad load(const ReplicaKey& replica, Moment now);
  /// Returns the load of whoever has this index now: for those who never take a replica out.
  ReplicaLoad load(ReplicaIndex replica, Moment now) { return load(key(replica), now); }
  /// How many requests are on the replica. 0 for one that is gone.
  std::uint32_t in_flight(const ReplicaKey& replica) const;
  /// Returns when the replica last gave a token or a whole answer, as this call sees it; nothing if it gave none.
  std::optional<Moment> last_life(const ReplicaKey& replica, Moment now);
  std::uint32_t in_flight() const;

 private:
  struct Replica {
    Replica(const ReplicaSpec& wanted, Serial number, bool known, Moment now)
        : spec(wanted), serial(number), ledger(now), health(wanted.health, known, now) {}

    ReplicaSpec spec;
    EngineLimits told;
    Serial serial;
    TokenLedger ledger;
    ReplicaRates rates;
    Health health;
    AnswerWindow answers;  ///< Bad is 4xx, and failures are no answers.
    AnswerWindow ends;     ///< Of work: bad are failures; 4xx and what no replica could answer are neither.
    FailedClients failed_clients;
    Suspicion suspicion;
    bool removed = false;
    Moment left{};                           ///< Since when it has been removed or draining.
    Moment rests_until = Moment::min();      ///< See rest_after_failure.
    bool rests_for_all = true;               ///< And not only for a request that failed there before.
    std::optional<WaitTicket> reserved_for;  ///< It takes nothing else.
    double speed = 1;
    std::uint64_t kv_full = 0, unknown_prompt = 0, panic = 0;  ///< These count fallbacks.
  };

  Pool(config::Policy policy, double decode_weight, std::uint64_t seed, GrantSink* sink);

  Tokens first_token(const LedgerEntry& entry, Moment now) override;
  void leave_unread(const LedgerEntry& entry, bool unread) override;
  Concurrency end(LedgerEntry entry, const LeaseEnd& end, Moment now) override;

  /// Everything that makes room does it here. `change` runs while the mutex is held; then the queue is served.
  template <class Change>
  auto free_room(Moment now, Change change) {
    PendingGrants grants(sink_);
    const std::lock_guard lock(mutex_);
    if constexpr (std::is_void_v<std::invoke_result_t<Change, Moment>>) {
      change(latest(now));
      serve_queue(grants);
    } else {
      auto result = change(latest(now));
      serve_queue(grants);
      return result;
    }
  }

  // The caller of everything below holds the mutex.
  Moment latest(Moment now);
  ReplicaIndex index_of(const ReplicaSpec& spec, Moment now);
  void drop_if_gone(ReplicaIndex index);
  Replica* find(const ReplicaKey& key) const;
  bool may_eject() const;
  bool may_call_hung(const Replica& suspect) const;
  bool is_odd(const Replica& suspect) const;
  void eject_the_odd_one(Replica& replica);
  static bool is_peer(const Replica* replica, const Replica& suspect);
  bool note_end(Replica& replica, Sign sign, const Caller& caller);
  void judge_silence(Replica& replica);
  bool lives(Replica& replica);
  static std::optional<Tokens> context_of(const Replica& replica);
  Tokens allowance_of(const Replica& replica) const;
  void end_starts();
  bool none_up() const;

  void note_contexts();
  WaitingRequest::Fit fit_of(const WaitingRequest& request) const;
  void look(bool for_queue);
  ReplicaView view_of(const Replica& replica, ReplicaIndex index) const;
  bool pool_has_room(Tokens prompt) const;
  void gather_for(const WaitingRequest& request, WaitTicket ticket);
  Narrowed narrow_for(const WaitingRequest& request, WaitTicket ticket, bool can_wait);
  bool find_reservable(const WaitingRequest& request, WaitTicket ticket);
  Lease admit(WaitingRequest request, const Narrowed& narrowed);
  Offered wait(WaitingRequest request, PendingGrants& grants);
  bool comes_too_late(const WaitingRequest& request) const;
  void bound_queue(PendingGrants& grants);
  void serve_queue(PendingGrants& grants);
  bool serve_reserved(PendingGrants& grants);
  bool any_may_take(Tokens prompt) const;
  bool drop_reservations();
  void reserve();
  static Returns::Identity identity_of(const WaitingRequest& request);
  std::optional<double> capacity() const;
  std::optional<std::uint64_t> places() const;
  double seconds_until_done(const Returns::Identity& who) const;
  Refused refusal(Refused::Reason reason, const Returns::Identity& who);

  void learn(Replica& replica, const LedgerEntry& entry, const LeaseEnd& end, const TokenLedger::Closed& closed);
  void update_speeds();
  void forget_untested_speeds();

  GrantSink* const sink_;
  mutable std::mutex mutex_;
  PoolLimits limits_;
  Moment latest_ = Moment::min();
  Moment absolved_until_ = Moment::min();
  std::vector<std::unique_ptr<Replica>> replicas_;  ///< They are indexed by ReplicaIndex, and leases point into them.
                                                    ///< Null is a free place.
  std::unique_ptr<policy::Policy> policy_;
  double decode_weight_;
  policy::Random random_;
  TokenEstimator estimator_;
  ExpectedOutput expected_output_;
  FinishedTokens finished_;
  Returns returns_;
  static constexpr double ends_remembered = 50;
  double lasted_ = 0, ends_ = 0;  ///< So many seconds a request is on its replica, as an EWMA, and so many taught it.
  TokenLedger::Ticket tickets_ = 0;
  Serial serials_ = 0;
  std::size_t first_set_ = 0;  ///< So many replicas the pool began with.
  std::uint32_t in_flight_ = 0;
  WaitingQueue waiting_;
  std::set<Tokens> contexts_, longest_prompts_;  ///< The replicas', see note_contexts().
  std::optional<WaitTicket> reserved_for_;  ///< All replicas take nothing else: the pool's own limit stands against it.
  std::vector<ReplicaView> views_;          ///< The named replicas as of the latest look.
  Tokens queued_ = 0;                       ///< Of all of them, as of then.
  std::uint32_t pool_in_flight_ = 0;
  std::vector<ReplicaView> candidates_;  ///< Those that may take the request in question.
  std::vector<double> rates_;            ///< It is kept for its memory.
};

}  // namespace weir::balancer

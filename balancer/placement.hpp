// Placement: a request asks its pool, and gets a lease, a wait, or a refusal.
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
#include "balancer/models.hpp"
#include "balancer/prefix/replica_prefixes.hpp"
#include "balancer/replica_time.hpp"
#include "balancer/token_ledger.hpp"
#include "balancer/tokens.hpp"
#include "metrics/wire/request/facts.hpp"
#include "metrics/wire/request/prompt_prefix.hpp"

namespace weir::balancer {

/// Why a lease ends.
enum class EndCause : std::uint8_t {
  answered,        ///< The replica gave a successful answer. The estimator and the speeds learn only from these.
  replica_failed,  ///< The replica gave no answer: it refused connections, failed, had no room, broke off, or took too
                   ///< long.
  client_erred,    ///< The replica refused such a request, and takes others.
  client_left,     ///< The client left before the answer was whole.
  unsent,          ///< The request never reached the replica, because weir itself lacked something, or because its
                   ///< client left before; or weir cut it. It is no failure of the client or the replica.
};

/// An end tells the pool how a request ended and what was counted of it.
struct LeaseEnd {
  explicit LeaseEnd(EndCause why) : cause(why) {}

  EndCause cause;
  std::optional<Tokens> prompt_tokens{}, cached_tokens{}, output_tokens{};
};

/// A choice keeps what the pool knew of a prompt's beginnings when it chose the replica.
struct PrefixChoice {
  PrefixPrediction prediction;
  std::uint32_t best = 0;  ///< The candidate that held most of the prompt held so much.
  std::shared_ptr<const metrics::wire::PromptPrefix> prompt{};  ///< Null from the first token on.
};

/// The times of a request as its pool expected them, in seconds: from the choice of its replica to the first and to the
/// last token, and for each token after the first.
struct PredictedTimes {
  double ttft = 0, e2e = 0, tpot = 0;
};

/// A choice keeps what the pool knew of the request's model at the replica: see RecentModels. Times are in seconds.
struct ModelChoice {
  ModelId id = 0;
  std::size_t distance = 0;
  double idle = 0;                              ///< Since the replica last worked for the model.
  double load_predicted = 0, behind_loads = 0;  ///< Its own load, and those under way before it.
};

/// An entry is what the books of a pool have for one request.
struct LedgerEntry {
  std::shared_ptr<const metrics::wire::RequestFacts> facts;  ///< The pool learns about these at the end.
  StreamedTokens* streamed_tokens = nullptr;                 ///< The replica's, which lives as long as its leases.
  std::shared_ptr<void> subject;                             ///< The replica's spec named it.
  TokenLedger::Ticket ticket = 0;
  ReplicaKey key;
  std::uint64_t identity = 0;  ///< See PoolReplica::identity.
  Tokens prompt = 0;
  std::uint64_t number = 0;                ///< By this a split pool drew its side: see Split.
  std::unique_ptr<PrefixChoice> prefix{};  ///< Null if nothing was known of the prompt.
  /// So much of the prompt is not charged, because the replica is believed to hold it.
  Tokens cached() const { return prefix ? prefix->prediction.cached : 0; }
  Moment since{};
  ReplicaTime::Began began{};  ///< What its replica had to do until its first token, as it was expected.
  std::optional<PredictedTimes> predicted{};
  ModelChoice model{};
  bool for_slot = false;   ///< It was to wait for a place in its engine's batch.
  Tokens output_left = 0;  ///< How much of the replica's decode_left the lease still holds.
  Tokens streamed = 0;
  bool waited = false;      ///< It stood in the queue.
  bool unread = false;      ///< Its answer is not read now.
  bool was_unread = false;  ///< Its answer has been left unread: its end says nothing of the replica's pace.
  bool doubted = false;     ///< The replica looked like the odd one when it was chosen: see ReplicaSet::is_odd().
  Caller caller;
};

class Pool;

/// A lease is what a request owns while a replica works for it. It is taken in the same critical section as the choice.
/// Whatever happens, its end gives back all that is left.
/// A lease can be moved, and one thread uses it at a time. On an empty one (default, moved from, ended) every call does
/// nothing.
class Lease {
 public:
  Lease() = default;
  Lease(std::shared_ptr<Pool> owner, LedgerEntry entry) : owner_(std::move(owner)), entry_(std::move(entry)) {}
  Lease(Lease&& other) noexcept = default;
  Lease& operator=(Lease&& other) noexcept;
  /// A lease that is dropped without end() gives everything back at the pool's latest known time, as if the client had
  /// left.
  ~Lease() {
    if (owner_) drop();
  }

  explicit operator bool() const { return owner_ != nullptr; }
  ReplicaIndex replica() const { return entry_.key.index; }
  const ReplicaKey& key() const { return entry_.key; }
  /// Returns what the replica's spec named.
  const std::shared_ptr<void>& subject() const { return entry_.subject; }
  Tokens prompt_estimate() const { return entry_.prompt; }
  /// Returns the home of state that the replica makes for this request.
  Home home() const { return {entry_.identity, entry_.number}; }
  /// Seconds from the choice to the first token and to the end, as they were expected. Nothing where the replica's
  /// times were not known yet, or the answer shows no tokens.
  const std::optional<PredictedTimes>& predicted() const { return entry_.predicted; }
  /// Tokens of the prompt that the replica is believed to hold, and that the candidate that holds most does. Nothing if
  /// nothing is known of the prompt.
  struct PrefixTokens {
    std::uint32_t predicted = 0, best = 0;
  };
  std::optional<PrefixTokens> prefix_tokens() const {
    if (!entry_.prefix || entry_.prefix->prediction.tail == 0) return std::nullopt;
    return PrefixTokens{entry_.prefix->prediction.cached, entry_.prefix->best};
  }
  /// True if the replica lately answered with 4xx where its peers do not: another one is to be asked about a 4xx.
  bool doubted() const { return entry_.doubted; }

  /// Says that the first token came: the prompt leaves the replica's queue. Only the first call counts.
  void first_token(Moment now);
  /// Says that `n` output tokens were streamed. They are counted with relaxed atomics on the replica's own cache line.
  /// The replica's decode_left falls by at most what the lease still holds of it.
  void tokens(std::uint32_t n);
  /// Says that something came in which tokens cannot be seen: the replica works, and is not taken for a hung one.
  void lives();
  /// Says that no token has come for long, though the answer is read: evidence against the replica's side in a split
  /// pool.
  void stalled() const;
  /// Says whether the answer is left unread for a slow client: the replica owes it nothing meanwhile.
  void leave_unread(bool unread);
  /// Says that the replica's work is over. A request that ends before its first token by `replica_failed` leaves its
  /// prompt in the queue for 1 s more. The lease is empty afterwards.
  Concurrency end(const LeaseEnd& end, Moment now);

 private:
  void drop() noexcept;

  std::shared_ptr<Pool> owner_;
  LedgerEntry entry_;
};

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

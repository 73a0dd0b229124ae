// The story of one request is a machine without a clock or a socket. It decides which replica is asked, whether the
// request goes out again and at whose expense, what is learned of the replicas on the way, and which answer the client
// gets. It is told what happened, with the moment, and says what is to be done. A driver carries its commands out: the
// proxy's for clients' and for mirrored requests, the lab's in simulated time.
//
// Nothing is tried again once a byte has reached the client. After each attempt a table (Story::terms_of) says what
// another one costs, and whether the request may wait for a replica if it can't have one:
//
//   end of the attempt                              another attempt                     else it waits
//   weir lacks descriptors, ports or memory         free                                no
//   no connection, in limits.connect                budget; first free if now out       yes
//   no connection, at once                          free                                yes
//   error: 404 for state that the request names     each replica once, free             no
//   error: another refusal (4xx, 501)               second opinion, outside the budget  no
//   error: any other                                budget                              if kept, for room (429, 503)
//   gave no token at all, or drains                 free                                for another replica
//   broke off                                       budget; first free                  yes
//   took too long after its first token             none                                no
//   no HTTP                                         budget; first free if now out       no
//
// A request may name state that some replica keeps under an id. Where nobody knows which, the replicas are asked one
// after the other as long as they answer 404, and the one that has it is remembered (Homes). Such a 404 says
// nothing of a replica.
#pragma once

#include <atomic>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "balancer/affinity.hpp"
#include "balancer/evidence.hpp"
#include "balancer/pool.hpp"
#include "balancer/story/attempt.hpp"
#include "balancer/story/retries.hpp"
#include "metrics/record/request_record.hpp"

namespace weir::balancer::story {

/// The driver's next step.
enum class Command : std::uint8_t {
  ask_pool,  ///< Offer placement() to the pool, and tell its answer: Leased, Waiting or Refused.
  wait,      ///< Wait for the pool's grant, and tell that, or ClientLeft, or CutInQueue.
  connect,   ///< Connect to replica() under take_lease(), as plan() says, send, relay, and tell AttemptOver.
  done,      ///< The request has ended: ending() says what its client gets.
};

/// The answer that the client gets.
enum class Told : std::uint8_t {
  nothing,      ///< The client left while it waited.
  relayed,      ///< The answer of the last attempt, as much of it as there was, is with the client.
  kept_error,   ///< The best error of a replica: AttemptOver::kept.
  unconnected,  ///< No connection to the last replica came about.
  failed,       ///< The last replica gave nothing to send on.
  poison,       ///< Two replicas were lost at work on the request, now or within the last minute.
  refused,      ///< No replica of the pool takes the request: Ending::refusal.
  stopping,     ///< The time that requests have to end (limits.drain) is over.
};

// The events, beside the pool's Waiting and Refused, and AttemptOver.

/// The request has come. One that has just cost two replicas ends at once, if it was identified.
struct Begun {};
/// The pool gave a lease, at once or after a wait. `usage` belongs to the lease's subject.
struct Leased {
  Lease lease;
  UsageOption* usage;
};
/// The client left while the request waited.
struct ClientLeft {};
/// limits.drain was over while the request waited.
struct CutInQueue {};

using Event = std::variant<Begun, Leased, Waiting, Refused, ClientLeft, CutInQueue, AttemptOver>;

class Story {
 public:
  /// The story's copy of what it needs of the request.
  struct Request {
    std::shared_ptr<const metrics::wire::RequestFacts> facts;
    std::shared_ptr<const metrics::wire::PromptPrefix> prefix{};  ///< Freed once an answer is on its way.
    Caller caller{};
    std::uint64_t fair_key = 0;  ///< See PlacementRequest.
    double share = 1;            ///< See PlacementRequest.
    std::uint64_t bytes = 0;     ///< The size of the body.
    std::uint64_t lot = 0;       ///< See PlacementRequest.
    bool repeatable = false;     ///< An inference: it may go to several replicas. Anything else is sent once.
    bool leaves_hung = false;    ///< The attempt ends when its replica is found to hang.
    /// The hash of an id under which some replica keeps state that the request is about. 0: none.
    std::uint64_t state = 0;
    Ties ties{};                ///< See PlacementRequest.
    bool hands_out = false;     ///< The replica may keep state under the id of its answer.
    bool may_go_twice = false;  ///< No harm is done where one replica gets it twice, after an idle connection died.

    /// True if errors are kept: another answer may be better.
    bool keeps_errors() const { return repeatable || ties.seeks; }
  };
  /// The parts that all requests of a pool share. They outlive the story.
  struct Shared {
    Pool& pool;
    RetryBudget& budget;
    PoisonMemory& poison;
    bool queues = false;                ///< The pool has a queue.
    metrics::Nanoseconds queue_time{};  ///< A request that has had a replica waits so long for another.
    Homes* homes = nullptr;             ///< Null: no ids are noted.
    /// weir ends what still runs: nothing is tried again, and nothing counts against a replica. Null: it never does.
    const std::atomic<bool>* cutting = nullptr;
  };

  Story(const Shared& shared, Request request);
  ~Story() { give_retry_back(); }
  Story(const Story&) = delete;
  Story& operator=(const Story&) = delete;

  /// Takes what happened, and returns what is to be done.
  Command resume(Event event, Moment now);
  /// True if the request is to be identified before Begun and Leased: some have just cost two replicas. Before it is
  /// sent again it is to be identified in any case.
  bool wants_identity() const { return request_.repeatable && identity_ == 0 && !shared_.poison.is_empty(); }
  /// `body`: a hash of it. Whoever sends the same again has the same.
  void identify(std::uint64_t body) { identity_ = identity_of(body); }
  /// An answer is on its way to the client. `added_option`: the request had the usage option. Returns true if the
  /// replica is known to refuse that option from now on.
  bool answer_accepted(unsigned status, bool added_option, Moment now);
  /// An error is too large or too slow to keep: another replica is asked if a retry can be had, which is taken here.
  /// Returns true if the error is left, for that replica or for a better error that is kept. Else it is relayed.
  bool spend_retry_on_error(unsigned status, Moment now);

  PlacementRequest placement() const;
  /// The replica of this attempt, or of the last one.
  const ReplicaRef& replica() const { return attempts_.back().replica; }
  Lease take_lease();
  /// The plan of the attempt that begins, for its driver, before it takes the lease.
  struct Plan {
    bool may_reuse_connection = false;  ///< An idle connection may be used.
    bool may_add_option = false;        ///< The usage option may be added.
    HandedOut handed_out;               ///< Where to note the id of the answer.
    /// The attempt before, if this one repeats it: its replica had a part in the repeat. A repeat counts only now:
    /// until a replica has room, the client may leave, or the queue's time be over.
    const Attempt* repeats = nullptr;
  };
  Plan plan() const;
  /// The request may be what ends replicas: two were lost, or stood still, while they worked on it.
  bool is_poison() const { return toll_.lost >= most_lost; }

  struct Ending {
    Told told;
    const AttemptOver* attempt;  ///< The attempt that `told` is about; blank if there is none.
    const ReplicaRef* replica;   ///< The replica of that attempt; null if the request reached none.
    Refused refusal;
    std::optional<Refused::Reason> limit_hit;  ///< This limit kept the request from a replica.
    /// Two replicas have failed the request, in whatever way: nobody is to send it again.
    bool failed_twice;
  };
  Ending ending() const {
    return {finish_.told, last_.get(), told_replica(), finish_.refusal, finish_.limit_hit, has_failed_twice()};
  }
  /// Adds all that the story knows to a record that has what the client asked. Takes the answer of the last attempt.
  void complete(metrics::record::RequestRecord& record, Moment now);

  /// The attempts in order: the first ones, and the last two. The request log shows them.
  std::span<const Attempt> attempts() const { return attempts_; }
  const Request& request() const { return request_; }
  /// The most attempts in attempts().
  static constexpr std::size_t most_attempts_listed = 8;

 private:
  /// The price of another attempt.
  enum class Price : std::uint8_t {
    none,            ///< No other attempt is made.
    free,            ///< At replicas that have not had the request.
    budget,          ///< A retry of the shared budget.
    first_free,      ///< The same, but the first retry is free.
    second_opinion,  ///< Free for small bodies, and counted: a replica that refuses does no work.
    each_once,       ///< Free for small bodies.
    taken,           ///< Paid before the attempt ended.
  };
  enum class Waits : std::uint8_t { no, yes, for_another };
  /// The terms on which a request goes on after an attempt.
  struct Terms {
    Price price = Price::none;
    Waits waits = Waits::no;
  };

  Command on(Begun event, Moment now);
  Command on(Leased event, Moment now);
  Command on(Waiting event, Moment now);
  Command on(Refused event, Moment now);
  Command on(ClientLeft event, Moment now);
  Command on(CutInQueue event, Moment now);
  Command on(AttemptOver event, Moment now);

  Terms terms_of(const AttemptOver& over, bool out, Moment now);
  Price price_after_error(unsigned status, Moment now);
  bool takes(Price price, Moment now);
  bool holds_retry(Moment now);
  Command relayed(AttemptOver over, Moment now);
  Command go_on(AttemptOver over, bool out, Moment now);
  void begin(const ReplicaRef& replica, Lease&& lease, Moment now);
  Command send_again(Lease lease, metrics::Retry reason, Moment now);
  Command end(Moment now);
  Command end_unserved(Told told, metrics::Outcome outcome, Moment now);
  Command done(Told told, Moment now);
  const ReplicaRef* told_replica() const;
  void keep(AttemptOver over, bool goes_on);
  void list(const AttemptOver& over, Moment now);
  void note_harm(const AttemptOver& over, bool cut, Moment now);
  bool replica_is_untried() const;
  bool another_is_left() const;
  bool has_failed_twice() const { return toll_.lost + toll_.errors >= most_lost; }
  bool may_go_on() const { return request_.repeatable && !cutting_ && !has_failed_twice(); }
  /// True if the replica has nothing under the id that the request names, which says nothing of the replica's health.
  bool lacks_state(unsigned status) const { return request_.state != 0 && status == 404; }
  /// True if the request goes where its state is, or looks for it. A name that the client made up is a preference.
  bool is_tied() const { return request_.ties.home != 0 || request_.ties.seeks; }
  /// True if nothing speaks for an answer that the state is unknown but replicas that are not the last one asked.
  bool is_unsought() const { return best_ && !lacked_last_ && lacks_state(best_->over.told_status()); }
  void look_at_cutting();
  std::uint64_t identity_of(std::uint64_t body) const;
  std::uint64_t stream_identity() const;
  void note_loss(Moment now);
  std::size_t replicas_gone(Moment now) const;
  void note_error();
  void give_retry_back();
  void accepted_second_opinion(unsigned status, Moment now);
  bool is_to_blame(const ReplicaRef& replica, unsigned status, Moment now);
  bool reached_a_replica() const { return best_ || (last_ && last_->end != End::unconnected); }

  /// The budget allows so many retries of one request.
  static constexpr std::uint32_t most_retries = 2;
  /// A request that lost so many replicas is not tried again: it may be what ends them.
  static constexpr std::uint8_t most_lost = 2;

  const Shared shared_;
  Request request_;
  HealthEvidence evidence_;
  std::unique_ptr<Lease> lease_;  ///< Until the driver takes it.
  Home home_;                     ///< Of state that the replica of this attempt makes.
  boost::container::small_vector<Attempt, 1> attempts_;
  std::vector<Serial> tried_;
  // On the heap, since most requests in flight need neither.
  std::unique_ptr<AttemptOver> last_;  ///< The last attempt, in short; at the end, the one whose answer is told.
  struct Kept {
    AttemptOver over;
    ReplicaRef replica;
  };
  std::unique_ptr<Kept> best_;  ///< The replica's error that tells the client most so far.
  /// The first replica whose refusal another one is asked about. A status of 0: none refused.
  struct Doubted {
    ReplicaKey key;
    unsigned status = 0;
  };
  Doubted second_opinion_on_;
  /// The retries of the shared budget.
  struct Retries {
    std::optional<bool> early;  ///< Whether one was taken, if that was settled before the attempt ended.
    std::optional<RetryBudget::Taken> held;
    std::uint32_t spent = 0;
  };
  Retries retries_;
  /// The request's stay in the queue.
  struct Wait {
    std::optional<Moment> deadline;  ///< When it gives up.
    std::optional<Moment> began;     ///< Set while it waits.
    bool in_front = false;           ///< It goes before those that never had a replica.
    bool had_no_room = false;        ///< A replica had no room for it.
  };
  Wait wait_;
  /// The pool's expectation of the last lease.
  struct Expected {
    std::optional<std::uint64_t> prompt;
    std::optional<PredictedTimes> times;
    std::optional<Lease::PrefixTokens> prefix;
  };
  Expected expected_;
  /// The sums of all attempts and waits.
  struct Spent {
    metrics::Nanoseconds connect{}, paused{}, waited{};
  };
  Spent spent_;
  /// The replicas of the last connection, of the last refusal of the usage option, and of the last idle connection that
  /// had died.
  struct Connections {
    Serial to = 0, option_refused_by = 0, stale_on = 0;
  };
  Connections connected_;
  std::uint32_t made_ = 0;            ///< Counts the attempts but those on stale connections.
  std::uint64_t identity_ = 0;        ///< 0: nothing is known of it, or noted.
  std::uint16_t replica_status_ = 0;  ///< The status of the last head that a replica sent; 0 if none did.
  /// The replicas that the request may have cost.
  struct Toll {
    std::uint8_t lost = 0;          ///< Counts those that were lost, or stood still, at work on the request.
    std::uint8_t errors = 0;        ///< Counts those that answered with an error of their own.
    bool by_two = false;            ///< Two replicas were lost, and not one twice.
    bool alone = true;              ///< Each had no other request when it was lost.
    bool too_slow = false;          ///< Its first token was due where others got tokens.
    bool on_trial = false;          ///< See PoisonMemory.
    Serial lost_by = 0, erred = 0;  ///< The last one of each.
  };
  Toll toll_;
  /// The end: see Ending.
  struct Finish {
    Told told = Told::nothing;
    bool of_replica = false;  ///< `told` is about a replica.
    Refused refusal;
    std::optional<Refused::Reason> limit_hit;
  };
  Finish finish_;
  bool cutting_ = false;
  bool sought_ = false;       ///< A replica did not have the state.
  bool lacked_last_ = false;  ///< The last one asked was such a replica.
};

}  // namespace weir::balancer::story

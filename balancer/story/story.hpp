// The story of one request: which replica it asks, whether it goes out again, at whose expense, what is learned of the
// replicas on the way, and which answer its client gets in the end. A pure machine: it is told what happened, with the
// moment, and says what is to be done. It knows no clock and no socket. A driver carries its commands out: the proxy's
// for clients' and for mirrored requests, the lab's in simulated time.
//
// Nothing is tried again once a byte has reached the client. A retry comes from the budget that all requests share,
// with these exceptions: no connection came about, in less than limits.connect; the replica gave no token at all, or is
// to drain; or it is the first retry, and the replica broke off with the request or is out.
//
// A request may name state that some replica keeps under an id. Where nobody knows which, the replicas are asked one
// after the other as long as they answer 404, and the one that has it is remembered (homes.hpp). Such a 404 says
// nothing of a replica.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "balancer/evidence.hpp"
#include "balancer/homes.hpp"
#include "balancer/pool.hpp"
#include "balancer/split.hpp"
#include "balancer/story/attempt.hpp"
#include "balancer/story/health_evidence.hpp"
#include "balancer/story/retries.hpp"
#include "metrics/record/request_record.hpp"

namespace weir::balancer::story {

/// The driver's next step.
enum class Command : std::uint8_t {
  ask_pool,  ///< Offer placement() to the pool, and tell leased(), queued() or refused().
  connect,   ///< Connect to replica() under take_lease(), send, relay, and tell attempt_over().
  done,      ///< The request has ended: told() says what its client gets.
};

/// The answer that the client gets.
enum class Told : std::uint8_t {
  nothing,      ///< The client left while it waited.
  relayed,      ///< The answer of the last attempt, as much of it as there was, is with the client.
  kept_error,   ///< The best error of a replica: AttemptOver::kept.
  unconnected,  ///< No connection to the last replica came about.
  failed,       ///< The last replica gave nothing to send on.
  poison,       ///< Two replicas were lost at work on the request, now or within the last minute.
  refused,      ///< No replica of the pool takes the request: refusal().
  stopping,     ///< The time that requests have to end (limits.drain) is over.
};

class Story {
 public:
  /// The story's copy of what it needs of the request.
  struct Request {
    std::shared_ptr<const metrics::wire::RequestFacts> facts;
    std::shared_ptr<const metrics::wire::PromptPrefix> prefix{};  ///< Freed once an answer is on its way.
    Caller caller{};
    std::uint64_t fair_key = 0;  ///< See PlacementRequest.
    double share = 1;           ///< See PlacementRequest.
    std::uint64_t bytes = 0;    ///< The size of the body.
    std::uint64_t lot = 0;      ///< See PlacementRequest.
    bool repeatable = false;    ///< An inference: it may go to several replicas. Anything else is sent once.
    bool leaves_hung = false;   ///< The attempt ends when its replica is found to hang.
    /// The hash of an id under which some replica keeps state that the request is about. 0: none.
    std::uint64_t state = 0;
    Ties ties{};             ///< See PlacementRequest.
    bool hands_out = false;  ///< The replica may keep state under the id of its answer.
    bool may_go_twice = false;  ///< No harm is done where one replica gets it twice, after an idle connection died.
  };
  /// The parts that all requests of a pool share. They outlive the story.
  struct Shared {
    Pool& pool;
    RetryBudget& budget;
    PoisonMemory& poison;
    bool queues = false;                ///< The pool has a queue.
    metrics::Nanoseconds queue_time{};  ///< A request that has had a replica waits so long for another.
    Homes* homes = nullptr;             ///< Null: no ids are noted.
  };

  Story(const Shared& shared, Request request);
  ~Story() { give_retry_back(); }
  Story(const Story&) = delete;
  Story& operator=(const Story&) = delete;

  // Events.

  /// The request has come. One that has just cost two replicas ends at once, if it was identified.
  Command begin(Moment now);
  /// True if the request is to be identified before begin() and leased(): some have just cost two replicas. Before it
  /// is sent again it is to be identified in any case.
  bool wants_identity() const { return request_.repeatable && identity_ == 0 && !shared_.poison.is_empty(); }
  /// `body`: a hash of it. Whoever sends the same again has the same.
  void identify(std::uint64_t body);
  /// The pool gave a lease, at once or after a wait. `usage` belongs to the lease's subject.
  Command leased(Lease&& lease, UsageOption& usage, Moment now);
  /// The request waits in the pool's queue until `deadline`.
  void queued(Moment deadline);
  /// Adds to the time spent waiting.
  void add_wait(metrics::Nanoseconds time) { waited_ += time; }
  /// No replica takes the request, or none in time.
  Command refused(const Refused& refused, Moment now);
  /// The client left while the request waited.
  Command client_left(Moment now);
  /// limits.drain was over while the request waited.
  Command cut_in_queue(Moment now);
  /// weir ends what still runs: nothing is tried again, and nothing counts against a replica.
  void cut() { cutting_ = true; }
  /// An answer is on its way to the client. `added_option`: the request had the usage option. Returns true if the
  /// replica is known to refuse that option from now on.
  bool answer_accepted(unsigned status, bool added_option, Moment now);
  /// An error is too large or too slow to keep: another replica is asked if a retry can be had, which is taken here.
  /// Returns true if the error is left, for that replica or for a better error that is kept. Else it is relayed.
  bool spend_retry_on_error(unsigned status, Moment now);
  /// The attempt has ended.
  Command attempt_over(AttemptOver over, Moment now);

  // Questions of a driver that carries a command out.

  PlacementRequest placement() const;
  /// The replica of this attempt, or of the last one.
  const ReplicaRef& replica() const { return attempts_.back().replica; }
  Moment attempt_started() const { return attempts_.back().started; }
  Lease take_lease();
  /// True if an idle connection may be used.
  bool may_reuse_connection() const;
  /// True if the usage option may be added.
  bool may_add_option() const { return option_refused_by_ != replica().key.serial; }
  /// True if errors are kept: another answer may be better.
  bool keeps_errors() const { return request_.repeatable || request_.ties.seeks; }
  bool leaves_hung() const { return request_.leaves_hung; }
  /// Returns where to note the id of the answer.
  HandedOut handed_out() const { return {request_.hands_out ? shared_.homes : nullptr, home_}; }
  /// Returns what the attempt that begins repeats, once: the replica that had a part in it, and why.
  struct Repeat {
    ReplicaRef replica;
    metrics::Retry reason;
  };
  std::optional<Repeat> take_repeat();
  /// The request may be what ends replicas: two were lost, or stood still, while they worked on it.
  bool is_poison() const { return lost_ >= most_lost; }
  /// Two replicas have failed the request, in whatever way: nobody is to send it again.
  bool has_failed_twice() const { return lost_ + errors_ >= most_lost; }
  /// Returns whose limit kept the request from a replica, once it has ended; nothing if none did.
  std::optional<Refused::Reason> limit_hit() const { return limit_hit_; }

  // The end.

  Told told() const { return told_; }
  /// The attempt that told() is about. Blank if there is none.
  AttemptOver& told_attempt() { return *last_; }
  /// The replica of that attempt; null if the request reached none.
  const ReplicaRef* told_replica() const;
  const Refused& refusal() const { return refusal_; }
  /// Adds all that the story knows to a record that has what the client asked. Takes the answer from told_attempt().
  void complete(metrics::record::RequestRecord& record, Moment now);

  /// The attempts in order: the first ones, and the last two. The request log shows them.
  std::span<const Attempt> attempts() const { return attempts_; }
  const Request& request() const { return request_; }
  /// The most attempts in attempts().
  static constexpr std::size_t most_attempts_listed = 8;

 private:
  Command not_connected(AttemptOver over, bool out, Moment now);
  Command error_came(AttemptOver over, Moment now);
  Command failed(AttemptOver over, bool out, Moment now);
  Command ask_another(std::optional<metrics::Retry> reason);
  Command requeue(Moment now, bool in_front = true);
  void begin(const ReplicaRef& replica, Lease&& lease, Moment now);
  Command send_again(Lease lease, metrics::Retry reason, Moment now);
  Command end(Moment now);
  Command end_unserved(Told told, metrics::Outcome outcome, Moment now);
  Command done(Told told, Moment now);
  void keep_in_short(const AttemptOver& over);
  void list(const AttemptOver& over, Moment now);
  bool replica_is_untried() const;
  bool another_is_left() const;
  bool may_go_on() const { return request_.repeatable && !cutting_ && !has_failed_twice(); }
  bool may_wait() const { return may_go_on() && shared_.queues; }
  bool take_retry(Moment now, bool gone = false);
  bool take_second_opinion(Moment now);
  /// True if the replica has nothing under the id that the request names, which says nothing of the replica's health.
  bool lacks_state(unsigned status) const { return request_.state != 0 && status == 404; }
  /// True if the request goes where its state is, or looks for it. A name that the client made up is a preference.
  bool is_tied() const { return request_.ties.home != 0 || request_.ties.seeks; }
  /// True if nothing speaks for an answer that the state is unknown but replicas that are not the last one asked.
  bool is_unsought() const { return best_ && !lacked_last_ && lacks_state(best_->over.told_status()); }
  bool seek(Moment now);
  std::uint64_t identity_of(std::uint64_t body) const;
  std::uint64_t stream_identity() const;
  void note_loss(Moment now);
  std::size_t replicas_gone(Moment now) const;
  void note_error();
  void give_retry_back();
  bool take_retry_after(unsigned status, Moment now);
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
  Home home_;  ///< Of state that the replica of this attempt makes.
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
  /// Whether a retry was taken, if that was settled before the attempt ended.
  std::optional<bool> early_retry_;
  std::optional<metrics::Retry> repeats_for_;  ///< The reason to count once the retry has a lease.
  std::optional<Moment> deadline_;             ///< When a queued request gives up.
  std::optional<std::uint64_t> prompt_estimate_;
  std::optional<PredictedTimes> predicted_;
  std::optional<Lease::PrefixTokens> prefix_;
  std::optional<Refused::Reason> limit_hit_;
  Refused refusal_;
  metrics::Nanoseconds connect_{}, paused_{}, waited_{};  ///< The sums of all attempts and waits.
  Serial connected_to_ = 0;                               ///< The replica that the request was last connected to.
  Serial option_refused_by_ = 0;                          ///< The replica that refused the usage option.
  Serial stale_on_ = 0;                                   ///< The replica whose idle connection died last.
  std::uint32_t made_ = 0;                                ///< Counts the attempts but those on stale connections.
  std::uint32_t retries_ = 0;                             ///< Counts those from the budget.
  std::uint16_t replica_status_ = 0;  ///< The status of the last head that a replica sent; 0 if none did.
  std::uint8_t lost_ = 0;             ///< Counts the replicas that were lost, or stood still, at work on the request.
  std::uint8_t errors_ = 0;           ///< Counts the replicas that answered with an error of their own.
  Serial lost_by_ = 0, erred_ = 0;    ///< The last one of each.
  std::uint64_t identity_ = 0;        ///< 0: nothing is known of it, or noted.
  bool lost_by_two_ = false;          ///< Two replicas were lost, and not one twice.
  bool was_on_trial_ = false;         ///< See PoisonMemory.
  bool too_slow_ = false;             ///< Its first token was due where others got tokens.
  bool lost_alone_ = true;            ///< Each had no other request when it was lost.
  Told told_ = Told::nothing;
  bool front_of_queue_ = false;  ///< The request goes before those that never had a replica.
  bool had_no_room_ = false;     ///< A replica had no room for it.
  bool any_retry_ = false, cutting_ = false;
  bool sought_ = false;         ///< A replica did not have the state.
  bool lacked_last_ = false;    ///< The last one asked was such a replica.
  bool repeats_ = false;        ///< The attempt that begins repeats the one before.
  bool tells_replica_ = false;  ///< told() is about a replica.
  std::optional<RetryBudget::Taken> held_retry_;
};

}  // namespace weir::balancer::story

// Stories of requests before a pool of replicas, with the events that a driver would tell.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "balancer/story/attempt.hpp"
#include "balancer/story/story.hpp"
#include "tests/unit/balancer/requests.hpp"

namespace weir::balancer::story {

using metrics::Outcome;
using metrics::Retry;

/// An attempt that ended with nothing of an answer.
inline AttemptOver broken(End end = End::reset, std::optional<Retry> why = Retry::reset) {
  AttemptOver over;
  over.end = end;
  over.sent = at(0);
  over.verdict = {end == End::timed_out     ? Outcome::timeout
                  : end == End::cut         ? Outcome::rejected
                  : end == End::bad_framing ? Outcome::upstream_error
                                            : Outcome::upstream_reset,
                  {},
                  end == End::cut ? Blame::weir : Blame::replica};
  over.retry_reason = end == End::cut ? Retry::drain : why;
  return over;
}

/// An error answer that was kept.
inline AttemptOver error(unsigned status, bool kept = true) {
  AttemptOver over;
  over.end = kept ? End::whole : End::given_up;
  over.reply = Reply::error;
  over.status = status;
  over.sent = at(0);
  over.accepted = kept;
  over.retry_reason = Retry::status;
  over.verdict.outcome = another_may_have_room(status) ? Outcome::replica_refused
                         : refuses_the_request(status) ? Outcome::client_error
                                                       : Outcome::upstream_error;
  over.verdict.blame = blame_of(over.verdict.outcome, status);
  if (kept) over.kept = std::make_shared<std::string>(std::to_string(status));
  return over;
}

/// A 200 stream whose first event was an error that stands for `told`; 0 if it names no status.
inline AttemptOver refusal_in_band(std::uint16_t told) {
  AttemptOver over = error(200);
  over.retry_reason = Retry::in_band_error;
  over.answer.in_band_error = true;
  over.answer.in_band_status = told;
  over.verdict.outcome = refuses_the_request(told) ? Outcome::client_error : Outcome::upstream_error;
  over.verdict.blame = blame_of(over.verdict.outcome, 200);
  return over;
}

inline AttemptOver answer_of(unsigned status = 200) {
  AttemptOver over;
  over.end = End::whole;
  over.reply = Reply::relayed;
  over.status = status;
  over.sent = at(0);
  over.accepted = true;
  over.verdict.outcome = status < 400 ? Outcome::ok : status < 500 ? Outcome::client_error : Outcome::upstream_error;
  over.verdict.blame = blame_of(over.verdict.outcome, status);
  return over;
}

inline AttemptOver unconnected(ConnectFailure failure) {
  AttemptOver over;
  over.end = End::unconnected;
  over.connect_failure = failure;
  return over;
}

/// An attempt of which only the end matters.
inline AttemptOver ended_by(End end, Reply reply = Reply::none) {
  AttemptOver over;
  over.end = end;
  over.reply = reply;
  if (end == End::client_left) over.verdict.outcome = Outcome::client_abort;
  return over;
}

/// A pool of replicas, and what the stories before it share.
class Stories final : public GrantSink {
 public:
  explicit Stories(std::size_t replicas = 3, double share = 1, std::size_t queue = 0,
                   config::Policy policy = config::Policy::round_robin)
      : budget(share, [this] { return std::size_t{pool->figures().in_flight()}; }), queues(queue > 0) {
    pool = Pool::make(policy, 1, this);
    PoolLimits limits;
    limits.queue = queue;
    pool->set_limits(limits, now);
    for (std::size_t i = 0; i < replicas; ++i) {
      usage.push_back(std::make_unique<UsageOption>());
      specs.emplace_back().name = std::to_string(i);
    }
    pool->set_replicas(specs, now);
  }

  static Story::Request inference() {
    Story::Request request{shared(prompt_of(10))};
    request.repeatable = request.leaves_hung = request.may_go_twice = true;
    return request;
  }
  /// `body`: its hash, once the driver has told it. `cut`: null is `cutting`.
  std::unique_ptr<Story> begin(Story::Request request = inference(), std::uint64_t body = 0,
                               const std::atomic<bool>* cut = nullptr) {
    if (!request.caller.client) request.caller.client = ++clients;  // Each request comes from another client.
    request.fair_key = *request.caller.client;
    if (cut == nullptr) cut = &cutting;
    const Story::Shared shared{*pool, budget, poison, queues, std::chrono::seconds(30), &homes, cut};
    auto story = std::make_unique<Story>(shared, std::move(request));
    if (body != 0) story->identify(body);
    return story;
  }
  /// Asks the pool, as a driver does for ask_pool. Nothing: the story waits.
  std::optional<Command> ask(Story& story) {
    auto placement = story.placement();
    if (queues) placement.waiter = std::make_shared<int>();
    auto offered = pool->offer(placement, now);
    if (const auto* waiting = std::get_if<Waiting>(&offered)) {
      EXPECT_EQ(story.resume(*waiting, now), Command::wait);
      return std::nullopt;
    }
    if (auto* admitted = std::get_if<Admitted>(&offered)) return leased(story, std::move(admitted->lease));
    return story.resume(std::get<Refused>(offered), now);
  }
  void waits(Story& story, Moment deadline) { EXPECT_EQ(story.resume(Waiting{1, deadline}, now), Command::wait); }
  /// Plays a story to its end: replicas answer with these statuses, and 0 breaks off within an answer. Returns what the
  /// client gets.
  template <class Statuses>
  unsigned play(const Statuses& status_of, Story::Request request = inference()) {
    now += std::chrono::milliseconds(20);
    const auto story = begin(std::move(request));
    for (auto next = *ask(*story); next == Command::connect;) {
      const unsigned status = status_of(story->replica().key.index);
      const bool keeps = may_be_bettered(status, story->replica().doubted);
      if (!keeps) story->answer_accepted(status, false, now);
      auto result = status == 0 ? broken() : keeps ? error(status) : answer_of(status);
      if (status == 0) result.reply = Reply::relayed;
      next = over(*story, std::move(result));
      if (next == Command::ask_pool) next = *ask(*story);
    }
    retries += story->attempts().size() - 1;
    metrics::record::RequestRecord record;
    story->complete(record, now);
    outcome = record.outcome;
    return story->ending().attempt->status;
  }
  Command leased(Story& story, Lease lease) {
    auto* const learned = usage[lease.key().index].get();
    return story.resume(Leased{std::move(lease), learned}, now);
  }
  /// The story gets this replica.
  Command leased_at(Story& story, ReplicaIndex replica) {
    std::vector<Serial> others;
    for (ReplicaIndex i = 0; i < specs.size(); ++i)
      if (i != replica) others.push_back(key(i).serial);
    auto placement = story.placement();
    placement.tried = others;
    auto offered = pool->offer(placement, now);
    return leased(story, std::move(std::get<Admitted>(offered).lease));
  }
  /// The attempt ends so. A driver's lease ends with the replica's work, or comes back.
  Command over(Story& story, AttemptOver result) {
    auto lease = story.take_lease();
    const bool comes_back =
        result.end == End::stale || result.end == End::option_refused || result.end == End::unconnected;
    if (comes_back) {
      result.lease = std::move(lease);
    } else {
      lease.end(LeaseEnd(cause_of(result.verdict)), now);
    }
    return story.resume(std::move(result), now);
  }
  void grant(std::vector<Granted> some) noexcept override {
    for (auto& one : some) granted.push_back(std::move(one));
  }

  /// How many retries the budget has left.
  int retries_left() {
    int count = 0;
    while (budget.take(now)) ++count;
    for (int i = 0; i < count; ++i) budget.give_back(now);
    return count;
  }
  /// No story has left anything in the books.
  void expect_rest() {
    expect_idle(*pool, specs.size(), now + std::chrono::hours(1));
    EXPECT_EQ(pool->figures().queue(now).waiting, 0u);
    budget.set_share(1);
    EXPECT_EQ(retries_left(), 3);
  }

  ReplicaKey key(ReplicaIndex replica) const { return pool->figures().key(replica); }
  void report(ReplicaIndex replica, Sign sign, int times) {
    for (int i = 0; i < times; ++i) pool->health().report(key(replica), sign, now);
  }
  bool is_out(ReplicaIndex replica) const {
    const auto state = pool->health().of(key(replica), now).state;
    return state == ReplicaState::ejected || state == ReplicaState::down;
  }

  Moment now = at(0);
  std::atomic<bool> cutting{false};
  RetryBudget budget;
  PoisonMemory poison;
  Homes homes;
  std::vector<std::unique_ptr<UsageOption>> usage;
  std::vector<ReplicaSpec> specs;
  std::shared_ptr<Pool> pool;
  std::vector<Granted> granted;
  std::uint64_t clients = 0;
  // Results of the stories that were played to their end:
  std::size_t retries = 0;
  Outcome outcome = Outcome::ok;  ///< The last one's.
  const bool queues;
};

/// A story whose first attempt is at the first replica.
struct Started {
  explicit Started(std::size_t replicas = 3, double share = 1, std::size_t queue = 0)
      : of(replicas, share, queue), story(of.begin()) {
    of.leased_at(*story, 0);
  }
  Stories of;
  std::unique_ptr<Story> story;
};

}  // namespace weir::balancer::story

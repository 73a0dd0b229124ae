// Anything happens to many requests of one pool, in any order. Each story ends as a naive account of its attempts says,
// and leaves nothing in the books of the pool and the budget.
#include <algorithm>
#include <random>

#include "tests/unit/balancer/story/stories.hpp"

namespace weir::balancer::story {
namespace {

constexpr std::size_t replicas = 4;

/// A request on its way, with what the test itself knows of it.
struct OnItsWay {
  enum class At { pool, queue, replica, accepted } at = At::pool;
  std::unique_ptr<Story> story;
  bool repeatable = true, may_go_twice = true;
  std::atomic<bool> cutting{false};
  WaitTicket ticket = 0;
  Moment deadline{};
  std::vector<ReplicaIndex> had{};  ///< Each attempt had this replica; stale ones are the next one's.
  std::vector<Serial> left{};       ///< Another replica was asked after these.
  std::optional<AttemptOver> last{};
  std::optional<std::pair<int, ReplicaIndex>> best{};  ///< The rank of the error kept, and whose it is.
  std::optional<Serial> stale_on{};                    ///< An idle connection to this replica died last.
  int lost = 0, errors = 0, paid = 0, connects = 0;
  Serial erred = 0;
  bool had_no_room = false;
  unsigned status = 0;  ///< That of the last head.
};

class Storm {
 public:
  Storm(std::uint64_t seed, std::size_t queue) : of_(replicas, 1, queue), random_(seed) {
    for (auto& spec : of_.specs) spec.max_in_flight = 3;
    of_.pool->set_replicas(of_.specs, of_.now);
  }

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      pass_time();
      take_grants();
      if (on_their_way_.size() < 16) begin();
      act(*on_their_way_[below(on_their_way_.size())]);
      take_grants();
      std::size_t at_replicas = 0;
      for (const auto& one : on_their_way_) at_replicas += one->at >= OnItsWay::At::replica ? 1 : 0;
      EXPECT_EQ(of_.pool->figures().in_flight(), at_replicas);
    }
    for (const auto& one : on_their_way_)
      if (one->at == OnItsWay::At::queue) static_cast<void>(of_.pool->leave(one->ticket, of_.now));
    on_their_way_.clear();
    of_.granted.clear();
    of_.expect_rest();
    EXPECT_GT(ended_, static_cast<std::size_t>(steps) / 20);
  }

 private:
  using At = OnItsWay::At;
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  void pass_time() {
    of_.now += std::chrono::milliseconds(below(200));
    static_cast<void>(of_.pool->health().take_changes(of_.now));
    if (below(10) == 0) of_.report(static_cast<ReplicaIndex>(below(replicas)), Sign::probe_passed, 1);
  }
  void begin() {
    auto request = Stories::inference();
    auto& one = *on_their_way_.emplace_back(std::make_unique<OnItsWay>());
    one.repeatable = request.repeatable = below(8) != 0;
    one.may_go_twice = request.may_go_twice = below(8) != 0;
    one.story = of_.begin(std::move(request), 0, &one.cutting);
  }
  void act(OnItsWay& one) {
    if (one.at == At::pool) return ask(one);
    if (one.at == At::queue) return wait(one);
    if (below(40) == 0) one.cutting = true;
    if (one.at == At::replica && below(4) == 0) {
      one.story->answer_accepted(200, false, of_.now);
      one.at = At::accepted;
      return;
    }
    end_attempt(one);
  }

  void ask(OnItsWay& one) {
    auto placement = one.story->placement();
    EXPECT_TRUE(std::ranges::is_permutation(placement.tried, one.left));
    if (of_.queues) placement.waiter = std::make_shared<OnItsWay*>(&one);
    auto offered = of_.pool->offer(placement, of_.now);
    if (auto* admitted = std::get_if<Admitted>(&offered)) return lease(one, std::move(admitted->lease));
    if (const auto* refused = std::get_if<Refused>(&offered)) return refuse(one, *refused);
    const auto& waiting = std::get<Waiting>(offered);
    EXPECT_EQ(one.story->resume(waiting, of_.now), Command::wait);
    one.at = At::queue;
    one.ticket = waiting.ticket;
    one.deadline = waiting.deadline;
  }
  void wait(OnItsWay& one) {
    const bool late = of_.now >= one.deadline;
    if (!late && below(20) != 0) return;
    ASSERT_TRUE(of_.pool->leave(one.ticket, of_.now)) << "grants are taken at once";
    if (late) return refuse(one, {Refused::Reason::expired});
    if (below(2) == 0) {
      EXPECT_EQ(one.story->resume(ClientLeft{}, of_.now), Command::done);
      return end(one, Told::nothing);
    }
    one.cutting = true;
    EXPECT_EQ(one.story->resume(CutInQueue{}, of_.now), Command::done);
    end(one, reached(one) ? after_attempts(one) : Told::stopping);
  }
  void take_grants() {
    // A lease that comes back may be granted at once.
    while (!of_.granted.empty()) take_each(std::exchange(of_.granted, {}));
    std::erase_if(on_their_way_, [](const auto& one) { return one->story == nullptr; });
  }
  void take_each(std::vector<Granted> all) {
    for (auto& granted : all) {
      auto& one = **std::static_pointer_cast<OnItsWay*>(granted.waiter);
      if (auto* given = std::get_if<Lease>(&granted.what)) {
        lease(one, std::move(*given));
      } else {
        refuse(one, std::get<Refused>(granted.what));
      }
    }
  }
  void lease(OnItsWay& one, Lease given) {
    one.had.push_back(given.key().index);
    if (of_.leased(*one.story, std::move(given)) == Command::done) {
      // Two that it was sent to are down.
      EXPECT_GE(one.had.size(), 3U);
      one.had.pop_back();
      one.lost = 2;
      return end(one, Told::poison);
    }
    one.at = At::replica;
    ++one.connects;
  }

  /// Makes an end that the attempt may have.
  AttemptOver some_end(const OnItsWay& one) {
    if (one.at == At::accepted) {
      if (below(3) != 0) return answer_of();
      auto over = below(2) == 0 ? broken() : ended_by(End::client_left);
      over.reply = Reply::relayed;
      return over;
    }
    if (one.story->plan().may_reuse_connection && below(6) == 0) return ended_by(End::stale);
    if (one.story->plan().may_add_option && below(8) == 0) return ended_by(End::option_refused);
    if (one.repeatable && below(3) == 0) {
      static constexpr unsigned statuses[] = {404, 408, 429, 500, 503};
      return error(statuses[below(5)], below(5) != 0);
    }
    switch (below(one.cutting ? 6 : 5)) {
      case 0:
        return unconnected(static_cast<ConnectFailure>(below(6)));
      case 1:
        return broken(End::timed_out, below(2) == 0 ? std::optional(Retry::hung) : std::nullopt);
      case 2:
        return broken(End::bad_framing);
      case 3:
        return ended_by(End::client_left);
      case 4:
        return broken(below(2) == 0 ? End::reset : End::closed);
      default:
        return broken(End::cut);
    }
  }

  void end_attempt(OnItsWay& one) {
    auto over = some_end(one);
    const auto at = one.had.back();
    const auto serial = of_.key(at).serial;
    if (over.status != 0) one.status = over.status;
    if (const bool stale = over.end == End::stale; stale || over.end == End::option_refused) {
      EXPECT_EQ(of_.over(*one.story, std::move(over)), Command::connect);
      EXPECT_EQ(one.story->replica().key.index, at);
      EXPECT_FALSE(one.story->plan().may_reuse_connection);
      one.last.emplace();
      one.stale_on = stale ? std::optional(serial) : std::nullopt;
      return;
    }
    const bool first_time = std::ranges::find(one.left, serial) == one.left.end();
    const bool is_lost = was_lost(over) && !one.cutting;
    const bool refused = over.end == End::unconnected && over.connect_failure == ConnectFailure::refused;
    const bool stood_still = over.retry_reason == Retry::hung && !one.cutting;
    if (is_lost || stood_still || (refused && one.stale_on == serial)) ++one.lost;
    if (!one.cutting && may_be_the_requests_fault(over) && std::exchange(one.erred, serial) != serial) ++one.errors;
    one.stale_on.reset();
    if (over.reply == Reply::error && over.kept != nullptr && (!one.best || error_rank(over.status) > one.best->first))
      one.best = {error_rank(over.status), at};
    const bool stays =
        one.at == At::accepted || over.end == End::client_left || !one.repeatable || one.cutting || one.lost + one.errors >= 2;
    const bool free = over.end == End::unconnected ? over.connect_failure != ConnectFailure::timed_out
                                                   : over.retry_reason == Retry::hung || (is_lost && one.left.empty());
    const bool waits_again =
        over.reply == Reply::error && has_no_room(over.status) && over.kept && std::exchange(one.had_no_room, true);
    one.last = ended_by(over.end, over.reply);
    one.last->kept = over.kept;
    const auto command = of_.over(*one.story, std::move(over));
    if (command == Command::done) {
      EXPECT_FALSE(!stays && free && first_time && of_.pool->another_is_left(one.left, serial));
      const bool relayed = one.at == At::accepted || one.last->end == End::client_left;
      return end(one, relayed ? Told::relayed : after_attempts(one));
    }
    ASSERT_EQ(command, Command::ask_pool);
    EXPECT_FALSE(stays);
    one.paid += !free && !waits_again && !one.story->placement().front_of_queue ? 1 : 0;
    EXPECT_LE(one.paid, 3) << "two from the budget, and one whose replica is out";
    if (!of_.queues) EXPECT_LE(one.connects, static_cast<int>(replicas) + 3);
    if (first_time) one.left.push_back(serial);
    one.at = At::pool;
  }
  void refuse(OnItsWay& one, const Refused& refused) {
    using enum Refused::Reason;
    EXPECT_EQ(one.story->resume(refused, of_.now), Command::done);
    const bool queue = refused.reason >= queue_full;
    const bool failed = reached(one) || (one.last && !queue);
    EXPECT_EQ(one.story->ending().limit_hit.has_value(), queue || !failed);
    end(one, failed ? after_attempts(one) : Told::refused);
  }

  static bool reached(const OnItsWay& one) { return one.best || (one.last && one.last->end != End::unconnected); }
  static Told after_attempts(const OnItsWay& one) {
    if (one.best) return Told::kept_error;
    if (one.lost >= 2) return Told::poison;
    if (one.last->end == End::unconnected) return Told::unconnected;
    return one.last->end == End::cut && one.cutting ? Told::stopping : Told::failed;
  }
  void end(OnItsWay& one, Told told) {
    EXPECT_EQ(one.story->ending().told, told);
    EXPECT_EQ(one.story->is_poison(), one.lost >= 2);
    if (told == Told::kept_error) {
      EXPECT_EQ(one.story->ending().replica->key.index, one.best->second);
      EXPECT_NE(one.story->ending().attempt->kept, nullptr);
    }
    metrics::record::RequestRecord record;
    one.story->complete(record, of_.now);
    EXPECT_GE(record.attempt, one.had.size());
    EXPECT_EQ(record.replica_status.value_or(0), one.status);
    EXPECT_LE(one.story->attempts().size(), Story::most_attempts_listed);
    one.story.reset();
    one.at = At::pool;
    ++ended_;
  }

  Stories of_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<OnItsWay>> on_their_way_;
  std::size_t ended_ = 0;
};

TEST(StoryProperty, EveryStoryEndsAsItsAttemptsSayAndLeavesNothing) {
  for (const std::size_t queue : {0u, 6u, 100u})
    for (std::uint64_t seed = 0; seed < 20 && !HasFailure(); ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", queue " << queue);
      Storm(seed, queue).run(1500);
    }
}

}  // namespace
}  // namespace weir::balancer::story

// Anything happens to replicas and to requests that may wait, in any order. Each request is told exactly one thing, and
// at the end there is nothing left.
#include <algorithm>
#include <map>
#include <random>

#include "balancer/pool.hpp"
#include "requests.hpp"

namespace weir::balancer {
namespace {

class WaitingStorm {
 public:
  WaitingStorm(config::Policy policy, std::uint64_t seed) : random_(seed) {
    pool_ = Pool::make(policy, seed, &sink_);
    for (std::size_t i = 0; i < replicas; ++i) specs_.push_back(replica("r" + std::to_string(i)));
    pool_->set_replicas(specs_, at(0));
    change_limits();
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      now_ += 0.001 * static_cast<double>(below(100));
      step();
      if (below(3) == 0) take_grants();
    }
    recover();
    EXPECT_EQ(pool_->figures().queue(at(now_)).waiting, 0u);
    EXPECT_EQ(pool_->figures().queue(at(now_)).waiting_tokens, 0u);
    EXPECT_EQ(pool_->figures().queue(at(now_)).waiting_bytes, 0u);
    expect_idle(*pool_, replicas, at(now_ + 2));
    for (const auto& [id, told] : told_) EXPECT_EQ(told, 1) << "request " << id;
    EXPECT_GT(waited_, 100u) << "the storm made nobody wait";
    EXPECT_GT(granted_, 50u);
  }

 private:
  static constexpr std::size_t replicas = 4;
  struct Held {
    Lease lease;
    bool first_token = false;
  };

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  void step() {
    const auto what = below(100);
    if (what < 40) return offer();
    if (what < 50) return leave();
    if (what < 62 && !held_.empty()) {
      auto& held = held_[below(held_.size())];
      held.lease.first_token(at(now_));
      held.lease.tokens(3);
    } else if (what < 78 && !held_.empty()) {
      end();
    } else if (what < 88) {
      report();
    } else if (what < 92) {
      change_replicas();
    } else if (what < 94) {
      change_limits();
    } else {
      now_ += static_cast<double>(below(4));
      pool_->health().take_changes(at(now_));
    }
  }

  void offer() {
    const auto id = ++ids_;
    RequestFacts facts = prompt_of(below(8) ? below(3000) : below(30'000));
    facts.stream = below(5) > 0;
    std::vector<Serial> tried;
    while (below(4) == 0) tried.push_back(pool_->figures().key(static_cast<ReplicaIndex>(below(replicas))).serial);
    PlacementRequest placement{.facts = shared(facts), .tried = tried, .fair_key = below(5), .bytes = below(100)};
    if (below(5) == 0) placement.deadline = at(now_ + static_cast<double>(below(10)));
    placement.front_of_queue = below(6) == 0;
    if (below(10) > 0) placement.waiter = std::make_shared<std::uint64_t>(id);
    auto offered = pool_->offer(placement, at(now_));
    if (auto* admitted = std::get_if<Admitted>(&offered)) {
      ++told_[id];
      held_.push_back({std::move(admitted->lease)});
    } else if (const auto* waiting = std::get_if<Waiting>(&offered)) {
      told_[id] += 0;
      ++waited_;
      EXPECT_TRUE(placement.waiter);
      waiting_[id] = waiting->ticket;
    } else {
      ++told_[id];
    }
  }

  void leave() {
    if (waiting_.empty()) return;
    const auto one = std::next(waiting_.begin(), static_cast<std::ptrdiff_t>(below(waiting_.size())));
    // If it was not waiting any more, its grant lies in the sink.
    if (!pool_->leave(one->second, at(now_))) return;
    ++told_[one->first];
    waiting_.erase(one);
  }

  void take_grants() {
    // A lease that is dropped here grants another.
    for (Granted& granted : std::exchange(sink_.all, {})) {
      const auto id = *std::static_pointer_cast<std::uint64_t>(granted.waiter);
      EXPECT_EQ(waiting_.erase(id), 1u);
      ++told_[id];
      auto* const lease = std::get_if<Lease>(&granted.what);
      if (lease == nullptr) continue;
      ++granted_;
      if (below(5) > 0) held_.push_back({std::move(*lease)});
    }
  }

  void end() {
    std::swap(held_[below(held_.size())], held_.back());
    Held held = std::move(held_.back());
    held_.pop_back();
    static constexpr EndCause causes[] = {EndCause::answered, EndCause::unsent, EndCause::replica_failed,
                                          EndCause::client_left};
    if (below(5) > 0) held.lease.end(LeaseEnd(causes[below(std::size(causes))]), at(now_));
  }

  void report() {
    static constexpr Sign signs[] = {Sign::answered,          Sign::client_error, Sign::failed,
                                     Sign::refused,           Sign::full,         Sign::probe_passed,
                                     Sign::connect_timed_out, Sign::probe_failed, Sign::probe_refused};
    const auto index = static_cast<ReplicaIndex>(below(replicas));
    const Sign sign = signs[below(std::size(signs))];
    for (auto times = 1 + below(6); times > 0; --times)
      pool_->health().report(pool_->figures().key(index), sign, at(now_), std::chrono::seconds(below(4)));
  }

  void change_replicas() {
    auto specs = specs_;
    for (ReplicaSpec& spec : specs) {
      spec.draining = below(4) == 0;
      if (below(2)) spec.max_in_flight = 1 + static_cast<std::uint32_t>(below(6));
      if (below(2)) spec.max_queued_tokens = 1 + below(8000);
      if (below(4) == 0) spec.kv_tokens = 20'000;
    }
    if (below(3) == 0) specs.erase(specs.begin() + static_cast<std::ptrdiff_t>(below(replicas)));
    pool_->set_replicas(specs, at(now_));
  }

  void change_limits() {
    PoolLimits limits;
    limits.queue = below(4) ? 5 + below(40) : 0;
    limits.queue_bytes = 200 + below(2000);
    if (below(3) == 0) limits.max_in_flight = 1 + static_cast<std::uint32_t>(below(20));
    if (below(3) == 0) limits.max_queued_tokens = 1 + below(20'000);
    pool_->set_limits(limits, at(now_));
  }

  /// Replicas recover and running requests end; then everything that waits is granted.
  void recover() {
    pool_->set_replicas(specs_, at(now_));
    PoolLimits wide;
    wide.queue = 10'000;
    pool_->set_limits(wide, at(now_));
    for (int i = 0; i < 3000 && (!waiting_.empty() || !held_.empty() || !sink_.all.empty()); ++i) {
      now_ += 1;
      for (ReplicaIndex r = 0; r < replicas; ++r)
        pool_->health().report(pool_->figures().key(r), Sign::probe_passed, at(now_));
      pool_->health().take_changes(at(now_));
      take_grants();
      for (Held& held : std::exchange(held_, {})) {
        held.lease.first_token(at(now_));
        held.lease.end(LeaseEnd(EndCause::answered), at(now_));
      }
    }
    EXPECT_TRUE(waiting_.empty());
  }

  std::mt19937_64 random_;
  Grantees sink_;
  std::shared_ptr<Pool> pool_;
  std::vector<ReplicaSpec> specs_;
  std::vector<Held> held_;
  std::map<std::uint64_t, WaitTicket> waiting_;
  std::map<std::uint64_t, int> told_;  ///< How often each request was told what becomes of it.
  std::uint64_t ids_ = 0;
  std::size_t waited_ = 0, granted_ = 0;
  double now_ = 0;
};

TEST(PoolQueueProperty, EachRequestIsToldOneThingAndNothingIsLeft) {
  for (const auto policy : {config::Policy::least_queued_tokens, config::Policy::round_robin}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(testing::Message() << "policy " << static_cast<int>(policy) << ", seed " << seed);
      WaitingStorm(policy, seed).run(2000);
    }
  }
}

}  // namespace
}  // namespace weir::balancer

// A closed loop in simulated time: clients that are refused come back when they were told to, until they are served.
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <random>

#include "balancer/pool.hpp"
#include "pool_queue.hpp"
#include "requests.hpp"

namespace weir::balancer {
namespace {

// Replicas work on one prompt at a time and decode all at once at a fixed rate.
class ClosedLoop final : public GrantSink {
 public:
  struct Engine {
    double prefill_rate = 10'000;
    double decode_rate = 100;
  };
  struct Load {
    std::string name;
    PoolLimits limits{};
    std::optional<Tokens> max_queued_tokens{};
    std::optional<std::uint32_t> max_in_flight{};
    Tokens output = 50;
  };

  ClosedLoop(const Load& load, std::uint64_t seed) : load_(load), random_(seed), free_at_(replicas) {
    pool_ = Pool::make(config::Policy::least_queued_tokens, seed, this);
    pool_->set_limits(load.limits, at(0));
    std::vector<ReplicaSpec> specs;
    for (std::size_t i = 0; i < replicas; ++i) {
      specs.push_back(replica("r" + std::to_string(i)));
      specs.back().max_queued_tokens = load.max_queued_tokens;
      specs.back().max_in_flight = load.max_in_flight;
      specs.back().health.eject = false;
    }
    pool_->set_replicas(specs, at(0));
  }
  ~ClosedLoop() {
    closing_ = true;
    events_.clear();
  }

  /// Users send one request after the other, without a pause, until `end`. One that is refused comes back when it was
  /// told to.
  void users(std::size_t n, double end) {
    for (std::size_t i = 0; i < n; ++i) send(++ids_, end, false);
    run_until(end);
  }
  /// So many clients send a request each.
  void burst(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) send(++ids_, 0, true);
  }
  void run_until(double time) {
    while (!events_.empty() && events_.begin()->first <= time) {
      now_ = events_.begin()->first;
      auto happens = std::move(events_.begin()->second);
      events_.erase(events_.begin());
      happens();
    }
    now_ = time;
  }
  void finish() {
    while (burst_left_ > 0 && now_ < 10'000) run_until(now_ + 1);
  }
  std::size_t refused = 0;
  double first_return = 1e9, last_return = 0;
  /// Returns how much of what the replicas can do was not used, from the first return to the last.
  double idle_share() const {
    double busy = 0;
    for (const auto& [from, to] : work_)
      busy += std::max(0.0, std::min(to, last_return) - std::max(from, first_return));
    const double can = load_.max_in_flight ? *load_.max_in_flight : 1;
    return 1 - busy / (can * replicas * (last_return - first_return));
  }

 private:
  static constexpr std::size_t replicas = 2;
  struct Request {
    std::uint64_t id = 0, key = 0;
    Tokens prompt = 0;
    double until = 0;
    bool of_burst = false, was_refused = false;
    Lease lease{};
  };

  void plan(double when, std::function<void()> what) { events_.emplace(when, std::move(what)); }
  double random(double from, double to) { return std::uniform_real_distribution<double>(from, to)(random_); }

  void send(std::uint64_t id, double until, bool of_burst) {
    if (of_burst) ++burst_left_;
    auto request = std::make_shared<Request>();
    request->id = request->key = id;
    request->prompt = static_cast<Tokens>(random(200, 1200));
    request->until = until;
    request->of_burst = of_burst;
    ask(request);
  }
  void ask(const std::shared_ptr<Request>& request) {
    RequestFacts facts = prompt_of(request->prompt, load_.output);
    facts.conversation = request->id;
    auto offered =
        pool_->offer({.facts = shared(facts), .fair_key = request->key, .bytes = 1, .waiter = request}, at(now_));
    if (auto* admitted = std::get_if<Admitted>(&offered)) begin(request, std::move(admitted->lease));
    if (const auto* no = std::get_if<Refused>(&offered)) refuse(request, *no);
    if (const auto* waits = std::get_if<Waiting>(&offered)) {
      plan(metrics::seconds(waits->deadline - at(0)), [this, ticket = waits->ticket, request] {
        if (const auto no = pool_->leave(ticket, at(now_))) refuse(request, *no);
      });
    }
  }
  void grant(std::vector<Granted> granted) noexcept override {
    if (closing_) return;
    for (Granted& one : granted) {
      const auto request = std::static_pointer_cast<Request>(one.waiter);
      if (auto* lease = std::get_if<Lease>(&one.what)) {
        begin(request, std::move(*lease));
      } else {
        // A pool hands out its refusals at once, and nobody asks again from within.
        plan(now_, [this, request, no = std::get<Refused>(one.what)] { refuse(request, no); });
      }
    }
  }
  void begin(const std::shared_ptr<Request>& request, Lease lease) {
    request->lease = std::move(lease);
    if (request->of_burst) last_return = std::max(last_return, now_);
    double& free_at = free_at_[request->lease.replica()];
    const double began = std::max(now_, free_at);
    free_at = began + static_cast<double>(request->prompt) / engine_.prefill_rate;
    plan(free_at, [this, request] { request->lease.first_token(at(now_)); });
    const double end = free_at + static_cast<double>(load_.output) / engine_.decode_rate;
    if (load_.max_in_flight) {
      work_.emplace_back(now_, end);
    } else {
      work_.emplace_back(began, free_at);
    }
    plan(end, [this, request] {
      request->lease.end(answer(request->prompt, load_.output), at(now_));
      if (request->of_burst) --burst_left_;
      if (!request->of_burst && now_ < request->until) send(request->id, request->until, false);
    });
  }
  void refuse(const std::shared_ptr<Request>& request, const Refused& no) {
    if (request->of_burst && !std::exchange(request->was_refused, true)) ++refused;
    const double back = now_ + no.retry_after * random(1, 1.5);
    if (request->of_burst) first_return = std::min(first_return, back);
    plan(back, [this, request] { ask(request); });
  }

  const Load load_;
  const Engine engine_{};
  std::mt19937_64 random_;
  std::shared_ptr<Pool> pool_;
  std::multimap<double, std::function<void()>> events_;
  std::vector<double> free_at_;
  std::vector<std::pair<double, double>> work_;
  std::size_t burst_left_ = 0;
  std::uint64_t ids_ = 0;
  double now_ = 0;
  bool closing_ = false;
};

ClosedLoop::Load by_tokens() {
  ClosedLoop::Load load{.name = "max_queued_tokens"};
  load.limits.queue = 32;
  load.max_queued_tokens = 2048;
  return load;
}
ClosedLoop::Load by_places() {
  ClosedLoop::Load load{.name = "max_in_flight"};
  load.limits.queue = 32;
  load.max_in_flight = 8;
  load.output = 200;
  return load;
}

TEST(PoolRetryAfter, NoReplicaStandsIdleWhileThoseThatWereRefusedComeBack) {
  for (const auto& load : {by_tokens(), by_places()}) {
    for (const std::size_t users : {2u, 20u, 60u}) {
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        SCOPED_TRACE(testing::Message() << load.name << ", " << users << " users before, seed " << seed);
        ClosedLoop loop(load, seed);
        loop.users(users, 30);
        loop.burst(load.max_in_flight ? 300 : 1000);
        loop.finish();
        EXPECT_GT(loop.refused, 200u);
        EXPECT_LT(loop.first_return, 30 + 10);
        EXPECT_LT(loop.idle_share(), 0.1);
      }
    }
  }
}

class PoolTells : public PoolQueue {
 protected:
  /// Replicas that have a request each and take no second one.
  void begin_busy(const std::vector<ReplicaSpec>& specs) {
    begin(specs, queue_of(0));
    for (std::size_t i = 0; i < specs.size(); ++i) held_.push_back(admit({.name = "held", .key = 99}, 0));
  }
  unsigned told(const Wish& wish, double now) { return refuse(wish, now).retry_after; }
  static ReplicaSpec draining(ReplicaSpec spec) {
    spec.draining = true;
    return spec;
  }
  void TearDown() override {
    held_.clear();
    PoolQueue::TearDown();
  }

  std::vector<Lease> held_;
};

TEST_F(PoolTells, WhatReplicasThatTakeRequestsAreAssumedToDoAndFortySecondsAtMost) {
  begin_busy({tokens("a", 1), tokens("b", 1)});
  EXPECT_EQ(told({.name = "short", .key = 1}, 0), 5u);
  EXPECT_EQ(told({.name = "8000 tokens a second", .prompt = 100'000, .key = 2}, 0), 11u);
  EXPECT_EQ(told({.name = "endless", .prompt = 10'000'000, .key = 3}, 0), 40u);
  held_.clear();
  begin_busy({tokens("a", 1), tokens("b", 1)});
  pool->set_replicas(std::vector{tokens("a", 1), draining(tokens("b", 1))}, at(0));
  EXPECT_EQ(told({.name = "4000 tokens a second", .prompt = 100'000, .key = 2}, 0), 22u);
}

// Replica a prefills 1000 tokens a second; b has shown nothing and counts for as much.
TEST_F(PoolTells, TheLearnedRateOfThoseThatAreIn) {
  for (const bool b_takes : {true, false}) {
    SCOPED_TRACE(b_takes ? "both take requests" : "b drains");
    held_.clear();
    begin({tokens("a", 1)}, queue_of(0));
    double now = 0;
    for (int i = 0; i < 40; ++i, now += 2) {
      Lease lease = admit({.name = "teaches", .prompt = 1000}, now);
      lease.first_token(at(now + 1));
      lease.end(answer(1000, 10), at(now + 1));
    }
    pool->set_replicas(std::vector{tokens("a", 1), b_takes ? tokens("b", 1) : draining(tokens("b", 1))}, at(now));
    held_.push_back(admit({.name = "held"}, now));
    if (b_takes) held_.push_back(admit({.name = "held"}, now));
    EXPECT_NEAR(told({.name = "refused", .prompt = 20'000, .key = 1}, now), b_takes ? 9 : 18, 1);
  }
}

}  // namespace
}  // namespace weir::balancer

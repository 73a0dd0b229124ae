// Anything happens to requests, in any order. The gauges are what a naive account says while it happens, and exactly
// zero afterwards.
#include <algorithm>
#include <map>
#include <random>

#include "balancer/pool.hpp"
#include "prompts.hpp"
#include "requests.hpp"

namespace weir::balancer {
namespace {

// The test's own account of a lease.
struct Held {
  Lease lease;
  Tokens prompt = 0, uncached = 0, expected = 0, streamed = 0;
  bool first_token = false;
};

class Storm {
 public:
  Storm(config::Policy policy, std::uint64_t seed) : random_(seed) {
    std::vector<ReplicaSpec> specs;
    for (std::size_t i = 0; i < replicas; ++i) specs.push_back(replica("r" + std::to_string(i), i == 0 ? 2 : 1));
    specs[1].kv_tokens = 20'000;
    specs[2].max_in_flight = 5;
    pool_ = Pool::make(policy, seed);
    pool_->set_prefix_aware(seed % 3 != 0);
    pool_->set_replicas(specs, at(0));
    specs_ = specs;
  }

  // If everything streams, every gauge can be computed from the leases, except for the failures of the last second.
  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      now_ += 0.001 * static_cast<double>(below(50));
      step();
      EXPECT_EQ(pool_->figures().in_flight(), held_.size());
      if (i % 10 == 0) check_gauges();
    }
    while (!held_.empty()) finish(below(held_.size()));
    expect_idle(*pool_, replicas, at(now_ + 1));
  }
  /// What was predicted to be cached, of all requests.
  Tokens cached() const { return cached_; }

 private:
  static constexpr std::size_t replicas = 4;

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  void step() {
    const std::size_t what = below(100);
    if (held_.empty() || (what < 30 && held_.size() < 200)) return offer();
    Held& held = held_[below(held_.size())];
    if (what < 50) {
      held.lease.first_token(at(now_));
      held.first_token = true;
    } else if (what < 80) {
      const auto n = static_cast<std::uint32_t>(below(40));
      held.lease.tokens(n);
      held.streamed += n;
    } else if (what < 98) {
      finish(below(held_.size()));
    } else {
      change_replicas();
    }
  }

  void offer() {
    Tokens prompt = below(3000);
    const Tokens expected = below(200);
    RequestFacts facts = prompt_of(prompt, expected);
    facts.model = "never answered";  // Only the request's own limit is expected.
    std::vector<Serial> tried;
    if (below(10) == 0) tried.push_back(pool_->figures().key(static_cast<ReplicaIndex>(below(replicas))).serial);
    PlacementRequest placement{shared(facts), tried};
    if (prompt > 0 && below(3) > 0) placement.prefix = prefix_of(below(20), prompt);
    Offered offered = pool_->offer(placement, at(now_));
    if (auto* admitted = std::get_if<Admitted>(&offered)) {
      Held held;
      held.lease = std::move(admitted->lease);
      held.prompt = prompt;
      const auto prefix = held.lease.prefix_tokens().value_or(Lease::PrefixTokens{});
      EXPECT_LE(prefix.predicted, prefix.best);
      EXPECT_LE(prefix.best, prompt);
      cached_ += prefix.predicted;
      held.uncached = prompt - prefix.predicted;
      held.expected = expected;
      held_.push_back(std::move(held));
    }
  }

  void finish(std::size_t i) {
    std::swap(held_[i], held_.back());
    Held held = std::move(held_.back());
    held_.pop_back();
    static constexpr EndCause causes[] = {EndCause::answered, EndCause::unsent, EndCause::replica_failed,
                                          EndCause::client_left, EndCause::client_erred};
    const std::size_t how = below(std::size(causes) + 1);
    if (how == 2 && !held.first_token) failed_ = now_;
    if (how == std::size(causes)) return;  // The lease's destructor ends it.
    LeaseEnd end(causes[how]);
    end.prompt_tokens = held.prompt;
    if (below(2)) end.cached_tokens = below(held.prompt + 1);
    const Concurrency concurrency = held.lease.end(end, at(now_));
    EXPECT_GE(concurrency.in_flight_mean, 1 - 1e-6);
    EXPECT_FALSE(held.lease);
  }

  void change_replicas() {
    std::vector<ReplicaSpec> specs = specs_;
    specs.erase(specs.begin() + static_cast<std::ptrdiff_t>(below(replicas)));
    pool_->set_replicas(below(2) ? specs : specs_, at(now_));
  }

  void check_gauges() {
    std::map<ReplicaIndex, ReplicaLoad> account;
    for (const Held& held : held_) {
      ReplicaLoad& load = account[held.lease.replica()];
      if (!held.first_token) load.prefill_left += held.uncached;
      load.decode_left += held.expected - std::min(held.expected, held.streamed);
      load.resident += held.uncached + held.streamed;
      ++load.in_flight;
    }
    for (ReplicaIndex i = 0; i < replicas; ++i) {
      const ReplicaLoad load = pool_->figures().load(i, at(now_));
      EXPECT_EQ(load.decode_left, account[i].decode_left);
      EXPECT_EQ(load.resident, account[i].resident);
      EXPECT_EQ(load.in_flight, account[i].in_flight);
      EXPECT_GE(load.prefill_left, account[i].prefill_left);
      if (now_ >= failed_ + 1) {
        EXPECT_EQ(load.prefill_left, account[i].prefill_left);
      }
      EXPECT_LT(load.prefill_left, 10'000'000u);  // It is not below zero.
    }
  }

  std::mt19937_64 random_;
  std::shared_ptr<Pool> pool_;
  std::vector<ReplicaSpec> specs_;
  std::vector<Held> held_;
  double now_ = 0, failed_ = -10;
  Tokens cached_ = 0;
};

TEST(PoolProperty, GaugesAreTheSumOfTheLeases) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Storm storm(config::Policy::least_queued_tokens, seed);
    storm.run(2000);
    EXPECT_EQ(storm.cached() > 1000, seed % 3 != 0);
  }
}

}  // namespace
}  // namespace weir::balancer

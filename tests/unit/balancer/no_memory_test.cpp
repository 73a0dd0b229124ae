// Each allocation fails once, and the queue and the pool go on as if it had not been asked for, or had been granted.
#include "tests/unit/no_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "balancer/prefix/index.hpp"
#include "balancer/waiting_queue.hpp"
#include "requests.hpp"

#ifndef WEIR_SANITIZED
namespace weir::balancer {
namespace {

/// Calls `work` once for each of its allocations, which fails then, and `check` after each; at last without a failure.
/// Returns how many have failed.
template <class Work, class Check>
std::size_t fail_each(const Work& work, const Check& check) {
  for (std::size_t nth = 0;; ++nth) {
    bool threw = false;
    no_memory::fail_at(nth);
    try {
      work();
    } catch (const std::bad_alloc&) {
      threw = true;
    }
    const bool failed = no_memory::has_failed();
    EXPECT_EQ(threw, failed) << "allocation " << nth;
    if (!failed) return nth;
    check();
  }
}

/// Calls what may not allocate.
template <class Work>
auto without_memory(const Work& work) {
  no_memory::fail_at(0);
  auto result = work();
  EXPECT_FALSE(no_memory::has_failed()) << "it allocates";
  return result;
}

/// A queue whose allocations fail stands beside one whose allocations do not, and beside a list of what waits.
class TwinQueues {
 public:
  explicit TwinQueues(std::uint64_t seed) : random_(seed) {}

  void run() {
    for (int step = 0; step < 400; ++step) {
      SCOPED_TRACE(testing::Message() << "step " << step);
      switch (below(8)) {
        case 0:
        case 1:
        case 2:
          push();
          break;
        case 3:
          leave();
          break;
        case 4:
          push_out();
          break;
        case 5:
          if (below(4) == 0) regroup();
          break;
        default:
          grant();
      }
      check();
      if (testing::Test::HasFailure()) return;
    }
    while (!waiting_.empty()) grant();
    check();
  }
  std::size_t failed() const { return failed_; }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  WaitingRequest some_request() {
    WaitingRequest request;
    request.key = below(6);
    request.share = std::array{0.5, 1.0, 1.0, 3.0}[below(4)];
    request.prompt = std::array<Tokens, 5>{0, 15, 900, 3000, 60'000}[below(5)] + below(3);
    request.output_cost = below(600);
    request.bytes = below(1000);
    request.fit = {below(2), below(2)};
    request.front_of_queue = below(8) == 0;
    request.since = at(static_cast<double>(waiting_.size()));
    for (std::size_t had = below(3); had > 0; --had) request.tried.push_back(had);
    return request;
  }

  void push() {
    const WaitingRequest request = some_request();
    WaitTicket ticket = 0;
    // The copy is made of memory, too.
    failed_ += fail_each([&] { ticket = queue_.push(request); }, [&] { check(); });
    EXPECT_EQ(ticket, twin_.push(request));
    waiting_.emplace(ticket, request);
  }

  void leave() {
    WaitTicket ticket = 1'000'000;
    if (!waiting_.empty() && below(5) > 0)
      ticket = std::next(waiting_.begin(), static_cast<std::ptrdiff_t>(below(waiting_.size())))->first;
    const auto left = without_memory([&] { return queue_.leave(ticket); });
    EXPECT_EQ(left.has_value(), waiting_.erase(ticket) == 1);
    EXPECT_EQ(left.has_value(), twin_.leave(ticket).has_value());
  }

  void push_out() {
    if (waiting_.empty()) return;
    const auto bound = below(2) ? WaitingQueue::Bound::requests : WaitingQueue::Bound::bytes;
    const auto [ticket, request] = without_memory([&] { return queue_.push_out(bound); });
    EXPECT_EQ(ticket, twin_.push_out(bound).first);
    EXPECT_EQ(waiting_.erase(ticket), 1u);
  }

  void grant() {
    const Tokens room = std::array<Tokens, 3>{20, 4000, 100'000}[waiting_.size() > 30 ? 2 : below(3)];
    const std::uint64_t closed_to = below(9);
    const auto fits = [&](const WaitingRequest& request) {
      const std::vector<Serial> views(3, closed_to);  // To look takes memory.
      return request.prompt <= room && request.key != views[below_views(request)];
    };
    const Moment now = at(1000);
    std::optional<WaitTicket> ticket;
    const auto next = [&] {
      const auto turn = queue_.next(fits, now);
      ticket = turn ? std::optional(turn->ticket) : std::nullopt;
    };
    failed_ += fail_each(next, [&] { check(); });
    const auto expected = twin_.next(fits, now);
    ASSERT_EQ(ticket.has_value(), expected.has_value());
    if (!ticket) return;
    ASSERT_EQ(*ticket, expected->ticket);
    if (below(4) == 0) {  // Without memory for a lease the turn lasts.
      const auto again = queue_.next(fits, now);
      ASSERT_TRUE(again);
      EXPECT_EQ(again->ticket, *ticket);
    }
    const auto before_turn = below(8) == 0;
    const auto taken = without_memory(
        [&] { return before_turn ? queue_.take(*ticket) : queue_.take_in_turn(*ticket, now); });
    before_turn ? twin_.take(*ticket) : twin_.take_in_turn(*ticket, now);
    EXPECT_EQ(taken.prompt, waiting_.at(*ticket).prompt);
    waiting_.erase(*ticket);
  }
  static std::size_t below_views(const WaitingRequest& request) { return request.tried.size(); }

  void regroup() {
    const std::size_t bound = below(4);
    const auto fit_of = [&](const WaitingRequest& request) {
      return WaitingRequest::Fit{request.prompt > 1000 * bound, request.bytes > 300 * bound};
    };
    failed_ += fail_each([&] { queue_.regroup(fit_of); }, [&] { check(); });
    twin_.regroup(fit_of);
    for (auto& [ticket, request] : waiting_) request.fit = fit_of(request);
  }

  void check() {
    Tokens tokens = 0, shortest = ~Tokens{0};
    std::size_t bytes = 0;
    for (const auto& [ticket, request] : waiting_) {
      tokens += request.uncached();
      bytes += request.bytes;
      shortest = std::min(shortest, request.uncached());
      const WaitingRequest* const found = queue_.find(ticket);
      ASSERT_NE(found, nullptr);
      EXPECT_EQ(found->prompt, request.prompt);
      EXPECT_EQ(found->fit, request.fit);
      EXPECT_EQ(found->tried, request.tried);
    }
    EXPECT_EQ(queue_.size(), waiting_.size());
    EXPECT_EQ(queue_.empty(), waiting_.empty());
    EXPECT_EQ(queue_.tokens(), tokens);
    EXPECT_EQ(queue_.bytes(), bytes);
    if (waiting_.empty()) {
      EXPECT_EQ(queue_.oldest(), std::nullopt);
    } else {
      EXPECT_EQ(queue_.oldest(), waiting_.begin()->second.since);
      EXPECT_EQ(queue_.shortest(), shortest);
    }
    for (std::uint64_t key = 0; key < 6; ++key) EXPECT_EQ(queue_.ahead_of(key), twin_.ahead_of(key));
    const auto is_same = [](const WaitingQueue::Passed& one, const WaitingQueue::Passed& other) {
      return one.ticket == other.ticket && one.since == other.since;
    };
    EXPECT_TRUE(std::ranges::equal(queue_.passed(), twin_.passed(), is_same));
  }

  std::mt19937_64 random_;
  WaitingQueue queue_, twin_;
  std::map<WaitTicket, WaitingRequest> waiting_;
  std::size_t failed_ = 0;
};

TEST(WaitingQueueWithoutMemory, IsAsBeforeWhicheverAllocationFails) {
  std::size_t failed = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    TwinQueues queues(seed);
    queues.run();
    failed += queues.failed();
    if (HasFailure()) return;
  }
  EXPECT_GT(failed, 10'000u);
}

/// Returns a prompt that has its first anchors in common with others of the same number.
std::shared_ptr<const metrics::wire::PromptPrefix> prompt_with(std::uint64_t number, std::size_t shared,
                                                               std::size_t own, std::uint64_t seed) {
  auto prefix = std::make_shared<metrics::wire::PromptPrefix>();
  for (std::size_t i = 1; i <= shared + own; ++i) {
    const std::uint64_t of = i <= shared ? number : seed;
    prefix->anchors.push_back({(of + 1) * 0x9e3779b97f4a7c15 + i * 0xbf58476d1ce4e5b9, 700 * i});
  }
  return prefix;
}

TEST(PrefixIndexWithoutMemory, TellsTheSameAsOneThatHadMemory) {
  constexpr ReplicaIndex replicas = 3;
  std::size_t failed = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    PrefixIndex index, twin;
    for (ReplicaIndex i = 0; i < replicas; ++i) {
      failed += fail_each([&] { index.place({i, i + 1}, 50'000); }, [] {});
      twin.place({i, i + 1}, 50'000);
    }
    for (int step = 0; step < 60; ++step) {
      const auto prefix = prompt_with(below(5), 1 + below(20), below(4 * static_cast<std::size_t>(step) + 1), random());
      const Tokens prompt = prefix->length() / 4;
      failed += fail_each([&] { index.look(*prefix, prompt); }, [] {});
      twin.look(*prefix, prompt);
      for (ReplicaIndex i = 0; i < replicas; ++i) ASSERT_EQ(index.cached(i, prompt), twin.cached(i, prompt));
      const auto chosen = static_cast<ReplicaIndex>(below(replicas));
      PrefixPrediction sent;
      failed += fail_each([&] { sent = index.sent(*prefix, chosen, prompt); }, [] {});
      const PrefixPrediction expected = twin.sent(*prefix, chosen, prompt);
      ASSERT_EQ(sent.cached, expected.cached);
      ASSERT_EQ(sent.entered, expected.entered);
      ASSERT_EQ(sent.sure_anchors, expected.sure_anchors);
      const PrefixReport report{prompt, sent.found.held, Tokens{below(500)}};
      without_memory([&] {
        index.computed(*prefix, sent, chosen);
        index.answered(sent, chosen, prompt, report);
        return true;
      });
      twin.computed(*prefix, expected, chosen);
      twin.answered(expected, chosen, prompt, report);
      for (ReplicaIndex i = 0; i < replicas; ++i)
        ASSERT_EQ(index.of(i).holdings().held(), twin.of(i).holdings().held());
    }
  }
  EXPECT_GT(failed, 100u);
}

/// Keeps grants in memory that is there already.
class GranteesWithRoom final : public GrantSink {
 public:
  GranteesWithRoom() { all.reserve(10'000); }
  void grant(std::vector<Granted> granted) noexcept override {
    for (Granted& one : granted) all.push_back(std::move(one));
  }
  std::vector<Granted> all;
};

/// A pool with a queue before a list of who runs and who waits. Of each call an allocation fails, or none does.
class PoolWithoutMemory {
 public:
  explicit PoolWithoutMemory(std::uint64_t seed) : random_(seed) {
    static constexpr std::array policies{config::Policy::least_queued_tokens, config::Policy::round_robin,
                                         config::Policy::least_requests, config::Policy::power_of_two};
    pool_ = Pool::make(policies[seed % policies.size()], seed, &sink_);
    pool_->set_prefix_aware(seed % 3 == 0);
    if (seed % 5 == 0) pool_->set_split(0.5, at(0));
    set_limits();
    set_replicas();
  }
  ~PoolWithoutMemory() {
    running_.clear();
    while (!sink_.all.empty()) sink_.all.erase(sink_.all.begin());
  }

  void run() {
    for (int step = 0; step < 400; ++step) {
      SCOPED_TRACE(testing::Message() << "step " << step);
      now_ += below(4) == 0 ? 0.5 : 0.01;
      switch (below(12)) {
        case 0:
        case 1:
        case 2:
        case 3:
        case 4:
          offer();
          break;
        case 5:
          leave();
          break;
        case 6:
        case 7:
          first_token();
          break;
        case 8:
          if (below(10) == 0) set_limits();
          break;
        case 9:
          if (below(10) == 0) set_replicas();
          if (below(10) == 0) engine_tells();
          break;
        default:
          end();
      }
      take_grants();
      check();
      if (testing::Test::HasFailure()) return;
    }
    drain();
  }
  std::size_t failed() const { return failed_; }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  /// Calls `work` with an allocation that may fail. Returns whether it threw.
  template <class Work>
  bool throws(const Work& work) {
    bool threw = false;
    no_memory::fail_at(below(4) == 0 ? 1'000'000 : below(14));
    try {
      work();
    } catch (const std::bad_alloc&) {
      threw = true;
    }
    const bool failed = no_memory::has_failed();
    failed_ += failed;
    EXPECT_LE(threw, failed);
    return threw;
  }

  void set_limits() {
    PoolLimits limits;
    limits.queue = 1 + below(12);
    limits.queue_bytes = 1000 + below(20'000);
    limits.expects_replicas = true;
    if (below(2)) limits.max_in_flight = 2 + static_cast<std::uint32_t>(below(8));
    EXPECT_FALSE(throws([&] { pool_->set_limits(limits, at(now_)); }));
  }

  void set_replicas() {
    std::vector<ReplicaSpec> specs;
    for (const char* const name : {"a", "b", "c", "d"}) {
      if (below(4) == 0) continue;
      specs.push_back(replica(name));
      specs.back().max_in_flight = 1 + static_cast<std::uint32_t>(below(4));
      if (below(3) == 0) specs.back().max_context = 4000;
      specs.back().candidate = *name == 'd';
      specs.back().draining = below(6) == 0;
    }
    std::vector<ReplicaIndex> indices;
    const auto set = [&] { indices = pool_->set_replicas(specs, at(now_)); };
    while (throws(set)) check();
    keys_.clear();
    for (const ReplicaIndex index : indices) keys_.push_back(pool_->figures().key(index));
  }

  void engine_tells() {
    if (keys_.empty()) return;
    const EngineLimits limits{100'000, 1000 * (1 + below(5))};
    EXPECT_FALSE(throws([&] { pool_->health().engine_told(keys_[below(keys_.size())], limits); }));
  }

  void offer() {
    RequestFacts facts = below(2) ? prompt_of(below(5000)) : chat_of(below(9000), "m" + std::to_string(below(3)));
    facts.stream = below(4) != 0;
    facts.conversation = below(20);
    PlacementRequest placement;
    placement.facts = shared(facts);
    placement.fair_key = below(4);
    placement.bytes = below(5000);
    placement.lot = random_();
    placement.front_of_queue = below(8) == 0;
    if (below(3) == 0) placement.deadline = at(now_ + static_cast<double>(below(30)));
    placement.waiter = std::make_shared<std::size_t>(++names_);
    placement.prefix = prompt_with(below(6), 1 + below(5), below(3), random_());
    const std::array<Serial, 1> tried{1 + below(4)};
    if (below(4) == 0) placement.tried = tried;
    std::optional<Offered> offered;
    if (throws([&] { offered = pool_->offer(placement, at(now_)); })) return;
    if (auto* const admitted = std::get_if<Admitted>(&*offered)) running_.push_back(std::move(admitted->lease));
    if (const auto* const waiting = std::get_if<Waiting>(&*offered)) waiting_.emplace(names_, waiting->ticket);
  }

  void leave() {
    if (waiting_.empty()) return;
    const auto one = std::next(waiting_.begin(), static_cast<std::ptrdiff_t>(below(waiting_.size())));
    std::optional<Refused> refused;
    EXPECT_FALSE(throws([&] { refused = pool_->leave(one->second, at(now_)); }));
    EXPECT_TRUE(refused) << "it waited";
    waiting_.erase(one);
  }

  void first_token() {
    if (running_.empty()) return;
    Lease& lease = running_[below(running_.size())];
    EXPECT_FALSE(throws([&] { lease.first_token(at(now_)); }));
    lease.tokens(static_cast<std::uint32_t>(below(20)));
  }

  void end() {
    if (running_.empty()) return;
    std::swap(running_[below(running_.size())], running_.back());
    static constexpr std::array causes{EndCause::answered,    EndCause::answered,    EndCause::replica_failed,
                                       EndCause::client_left, EndCause::client_erred, EndCause::unsent};
    LeaseEnd how(causes[below(causes.size())]);
    if (below(2)) how.prompt_tokens = below(5000);
    if (below(2)) how.output_tokens = below(300);
    if (below(2)) how.cached_tokens = below(2000);
    Lease lease = std::move(running_.back());
    running_.pop_back();
    EXPECT_FALSE(throws([&] { lease.end(how, at(now_)); }));
  }

  void take_grants() {
    for (Granted& one : sink_.all) {
      const std::size_t name = *std::static_pointer_cast<std::size_t>(one.waiter);
      EXPECT_EQ(waiting_.erase(name), 1u) << "it does not wait, or was told before";
      if (auto* const lease = std::get_if<Lease>(&one.what)) running_.push_back(std::move(*lease));
    }
    sink_.all.clear();
  }

  void check() {
    EXPECT_EQ(pool_->figures().queue(at(now_)).waiting, waiting_.size());
    EXPECT_EQ(pool_->figures().in_flight(), running_.size());
  }

  /// With memory, all that wait are served.
  void drain() {
    PoolLimits limits;
    pool_->set_limits(limits, at(now_));
    const std::vector<ReplicaSpec> one{replica("last")};
    const auto last = pool_->set_replicas(one, at(now_)).front();
    for (int round = 0; round < 2000 && !(waiting_.empty() && running_.empty()); ++round) {
      now_ += 0.5;
      if (!running_.empty()) {
        Lease lease = std::move(running_.back());
        running_.pop_back();
        lease.end(answer(100, 10), at(now_));
      }
      pool_->health().take_changes(at(now_));
      take_grants();
      check();
    }
    EXPECT_TRUE(waiting_.empty()) << "it waits for ever";
    EXPECT_TRUE(running_.empty());
    const ReplicaLoad load = pool_->figures().load(last, at(now_ + 10));
    EXPECT_EQ(load.prefill_left, 0u);
    EXPECT_EQ(load.decode_left, 0u);
    EXPECT_EQ(load.resident, 0u);
    EXPECT_EQ(load.in_flight, 0u);
  }

  std::mt19937_64 random_;
  GranteesWithRoom sink_;
  std::shared_ptr<Pool> pool_;
  std::vector<ReplicaKey> keys_;
  std::vector<Lease> running_;
  std::map<std::size_t, WaitTicket> waiting_;  ///< By the waiter's name.
  std::size_t names_ = 0, failed_ = 0;
  double now_ = 0;
};

TEST(PoolWithoutMemory, LosesNobodyAndKeepsItsBooks) {
  std::size_t failed = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    PoolWithoutMemory pool(seed);
    pool.run();
    failed += pool.failed();
    if (HasFailure()) return;
  }
  EXPECT_GT(failed, 5000u);
}

}  // namespace
}  // namespace weir::balancer
#endif

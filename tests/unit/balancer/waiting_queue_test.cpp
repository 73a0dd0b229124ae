#include "balancer/waiting_queue.hpp"

#include <algorithm>
#include <array>
#include <list>
#include <map>
#include <random>

#include "requests.hpp"

namespace weir::balancer {
namespace {

constexpr Tokens quantum = WaitingQueue::quantum;

WaitingRequest asks(std::uint64_t key, Tokens prompt, std::size_t bytes = 1) {
  WaitingRequest request;
  request.fair_key = key;
  request.prompt = prompt;
  request.bytes = bytes;
  request.since = at(0);
  return request;
}
WaitingRequest refused_elsewhere(std::uint64_t key, Tokens prompt) {
  auto request = asks(key, prompt);
  request.front_of_queue = true;
  return request;
}
WaitingRequest had_by(std::uint64_t key, Tokens prompt, std::uint64_t serial) {
  auto request = asks(key, prompt);
  request.tried = {serial};
  return request;
}

WaitingRequest with_share(std::uint64_t key, double share, Tokens prompt) {
  auto request = asks(key, prompt);
  request.share = share;
  return request;
}

WaitingRequest with_output(std::uint64_t key, Tokens prompt, Tokens output_cost) {
  auto request = asks(key, prompt);
  request.output_cost = output_cost;
  return request;
}

const auto all = [](const WaitingRequest&) { return true; };
auto up_to(Tokens room) {
  return [room](const WaitingRequest& request) { return request.prompt <= room; };
}

/// Takes out the request whose turn it is.
std::optional<std::pair<WaitTicket, WaitingRequest>> take_next(WaitingQueue& queue, const WaitingQueue::Fits& fits,
                                                               Moment now) {
  const auto next = queue.next(fits, now);
  if (!next) return std::nullopt;
  return std::pair(next->ticket, queue.take_in_turn(next->ticket, now));
}

/// Returns the keys of the next requests, in order.
std::vector<std::uint64_t> keys_of_next(WaitingQueue& queue, int n, const WaitingQueue::Fits& fits = all) {
  std::vector<std::uint64_t> keys;
  for (int i = 0; i < n; ++i) {
    const auto next = take_next(queue, fits, at(0));
    keys.push_back(next ? next->second.fair_key : 0);
  }
  return keys;
}

TEST(WaitingQueue, AShareThatChangesHoldsForAllThatWait) {
  WaitingQueue queue;
  for (int i = 0; i < 9; ++i) queue.push(asks(1, quantum));
  for (int i = 0; i < 9; ++i) queue.push(asks(2, quantum));
  EXPECT_EQ(keys_of_next(queue, 2), (std::vector<std::uint64_t>{1, 2}));
  queue.push(with_share(1, 2, quantum));
  EXPECT_EQ(keys_of_next(queue, 6), (std::vector<std::uint64_t>{1, 1, 2, 1, 1, 2}));
}

TEST(WaitingQueue, WhatAReplicaHoldsOfAPromptCostsNothing) {
  WaitingRequest request;
  request.prompt = 5000;
  request.cached = 4000;
  EXPECT_EQ(WaitingQueue::cost(request), 1000u);
}

TEST(WaitingQueue, OutputCostsToo) {
  WaitingQueue queue;
  for (int i = 0; i < 4; ++i) queue.push(with_output(1, 100, quantum - 100));
  for (int i = 0; i < 8; ++i) queue.push(asks(2, quantum / 2));
  EXPECT_EQ(keys_of_next(queue, 9), (std::vector<std::uint64_t>{1, 2, 2, 1, 2, 2, 1, 2, 2}));
}

TEST(WaitingQueue, WhatAReplicaRefusedGoesFirst) {
  WaitingQueue queue;
  queue.push(asks(1, 10));
  queue.push(refused_elsewhere(2, 100'000));
  queue.push(asks(3, 10));
  queue.push(refused_elsewhere(4, 10));
  EXPECT_EQ(keys_of_next(queue, 5), (std::vector<std::uint64_t>{2, 4, 1, 3, 0}));
}

TEST(WaitingQueue, WhatFitsNowhereBlocksNobody) {
  WaitingQueue queue;
  queue.push(asks(1, 9000));
  queue.push(asks(1, 100));
  queue.push(refused_elsewhere(2, 8000));
  queue.push(asks(3, 7000));
  queue.push(asks(4, 50));
  EXPECT_EQ(keys_of_next(queue, 3, up_to(1000)), (std::vector<std::uint64_t>{1, 4, 0}));
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_EQ(queue.shortest(), 7000u);
  EXPECT_EQ(keys_of_next(queue, 4, up_to(8500)), (std::vector<std::uint64_t>{2, 3, 0, 0}));
}

TEST(WaitingQueue, OneThatMayNotGoToTheFreeReplicaBlocksNobodyOfItsKey) {
  WaitingQueue queue;
  queue.push(had_by(1, 100, 7));
  queue.push(asks(1, 100));
  const auto replica_7 = [](const WaitingRequest& request) { return request.tried.empty(); };
  const auto next = take_next(queue, replica_7, at(0));
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->second.tried.empty());
}

TEST(WaitingQueue, OneThatNeedsALongerContextBlocksNobodyOfItsKey) {
  WaitingQueue queue;
  auto long_context = asks(1, 100);
  long_context.context = 9000;
  const auto long_one = queue.push(std::move(long_context));
  for (int i = 0; i < 3; ++i) queue.push(asks(1, 100));
  const auto short_context = [](const WaitingRequest& request) { return request.context == 0; };
  EXPECT_EQ(keys_of_next(queue, 4, short_context), (std::vector<std::uint64_t>{1, 1, 1, 0}));
  ASSERT_EQ(queue.passed().size(), 1u);
  EXPECT_EQ(queue.passed().begin()->second, long_one);
}

TEST(WaitingQueue, TheSearchOfAFlowEndsAfterItsOldest) {
  WaitingQueue queue;
  for (std::size_t i = 0; i < WaitingQueue::looked_at; ++i) queue.push(asks(1, 9000));
  queue.push(asks(1, 100));
  queue.push(asks(2, 200));
  std::size_t looks = 0;
  const auto fits = [&](const WaitingRequest& request) { return ++looks, request.prompt <= 1000; };
  EXPECT_EQ(take_next(queue, fits, at(0))->second.prompt, 200u) << "another key is not blocked";
  EXPECT_EQ(looks, WaitingQueue::looked_at + 1);
  queue.take_in_turn(queue.next(all, at(0))->ticket, at(0));
  EXPECT_EQ(take_next(queue, fits, at(0))->second.prompt, 100u);
}

TEST(WaitingQueue, OneThatAReplicaRefusedIsPassedOverWhenAnotherGoes) {
  WaitingQueue queue;
  const auto long_one = queue.push(refused_elsewhere(1, 9000));
  queue.push(asks(2, 10));
  ASSERT_TRUE(take_next(queue, up_to(100), at(2)));
  ASSERT_EQ(queue.passed().size(), 1u);
  EXPECT_EQ(queue.passed().begin()->second, long_one);
}

TEST(WaitingQueue, OneIsPassedOverInRoundsThatAreGivenAtOnce) {
  WaitingQueue queue;
  queue.push(asks(1, 5 * quantum));
  const auto long_one = queue.push(asks(2, 2 * quantum));
  ASSERT_TRUE(take_next(queue, [](const WaitingRequest& one) { return one.fair_key == 1; }, at(2)));
  ASSERT_EQ(queue.passed().size(), 1u) << "it had its credit after two of five rounds";
  EXPECT_EQ(queue.passed().begin()->second, long_one);
}

/// Turn by turn, these rounds would take weeks.
TEST(WaitingQueue, GivesAFewTurnsAFlowHoweverCostlyARequestIs) {
  constexpr std::uint64_t keys = 500;
  WaitingQueue queue;
  for (std::uint64_t key = 1; key <= keys; ++key) queue.push(asks(key, quantum << 40U));
  for (std::uint64_t key = 1; key <= keys; ++key) EXPECT_EQ(keys_of_next(queue, 1).front(), key);
  EXPECT_TRUE(queue.empty());
}

TEST(WaitingQueue, AShorterOneOfTheSameSizeGoesWhereTheOldestDoesNotFit) {
  WaitingQueue queue;
  queue.push(asks(1, 1500));
  queue.push(asks(1, 1100));
  EXPECT_EQ(take_next(queue, up_to(1200), at(0))->second.prompt, 1100u);
  EXPECT_FALSE(take_next(queue, up_to(1200), at(0)));
}

TEST(WaitingQueue, TellsWhoWasPassedOverAndSinceWhen) {
  WaitingQueue queue;
  const auto long_one = queue.push(asks(1, 2 * quantum));
  queue.push(asks(1, 10));
  for (int i = 0; i < 9; ++i) queue.push(asks(2, quantum));
  EXPECT_FALSE(take_next(queue, up_to(5), at(1)));
  EXPECT_TRUE(queue.passed().empty()) << "nobody was taken in its place";
  EXPECT_EQ(take_next(queue, up_to(quantum), at(2))->second.prompt, 10u);
  ASSERT_EQ(queue.passed().size(), 1u);
  EXPECT_EQ(queue.passed().begin()->second, long_one);
  EXPECT_EQ(queue.passed().begin()->first, at(2));
  take_next(queue, up_to(quantum), at(3));
  EXPECT_EQ(queue.passed().begin()->first, at(2)) << "the first time counts";
  queue.take(long_one);
  EXPECT_TRUE(queue.passed().empty());
}

TEST(WaitingQueue, AnotherKeysLongPromptIsPassedOverOnceItHasItsCredit) {
  WaitingQueue queue;
  const auto long_one = queue.push(asks(1, 3 * quantum));
  for (int i = 0; i < 9; ++i) queue.push(asks(2, quantum));
  take_next(queue, up_to(quantum), at(1));
  take_next(queue, up_to(quantum), at(2));
  EXPECT_TRUE(queue.passed().empty()) << "its turn has not come";
  take_next(queue, up_to(quantum), at(3));
  ASSERT_EQ(queue.passed().size(), 1u);
  EXPECT_EQ(queue.passed().begin()->second, long_one);
}

TEST(WaitingQueue, WhatIsTakenBeforeItsTurnIsPaidLater) {
  WaitingQueue queue;
  const auto long_one = queue.push(asks(1, 4 * quantum));
  queue.push(asks(1, quantum));
  for (int i = 0; i < 6; ++i) queue.push(asks(2, quantum));
  queue.take(long_one);
  EXPECT_EQ(keys_of_next(queue, 7), (std::vector<std::uint64_t>{2, 2, 2, 2, 1, 2, 2}));
}

TEST(WaitingQueue, WhoLeavesLeavesNoTrace) {
  WaitingQueue queue;
  const auto ticket = queue.push(asks(1, 500, 70));
  const auto first = queue.push(refused_elsewhere(1, 100));
  EXPECT_EQ(queue.tokens(), 600u);
  EXPECT_EQ(queue.figures(at(0)).waiting_bytes, 71u);
  EXPECT_EQ(queue.leave(ticket)->prompt, 500u);
  EXPECT_FALSE(queue.leave(ticket));
  EXPECT_EQ(queue.leave(first)->prompt, 100u);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.tokens(), 0u);
  EXPECT_EQ(queue.figures(at(7)).waiting_bytes, 0u);
  EXPECT_EQ(queue.figures(at(7)).oldest_seconds, 0);
  EXPECT_FALSE(take_next(queue, all, at(0)));
}

TEST(WaitingQueue, PushesOutTheLongestKeysNewest) {
  using enum WaitingQueue::Bound;
  WaitingQueue queue;
  queue.push(asks(1, 10, 1000));
  for (int i = 0; i < 3; ++i) queue.push(asks(2, 10, 10));
  const auto newest_of_2 = queue.push(asks(2, 10, 10));
  queue.push(asks(3, 9999, 10));
  queue.push(refused_elsewhere(4, 10));
  EXPECT_EQ(queue.push_out(requests).first, newest_of_2);
  EXPECT_EQ(queue.push_out(bytes).second.fair_key, 1u);
  queue.push_out(requests);
  queue.push_out(requests);
  EXPECT_EQ(queue.push_out(requests).second.fair_key, 3u) << "of equals the one with the newest";
  EXPECT_EQ(queue.push_out(requests).second.fair_key, 2u);
  EXPECT_EQ(queue.push_out(requests).second.fair_key, 4u) << "what a replica refused goes last";
  EXPECT_TRUE(queue.empty());
}

TEST(WaitingQueue, KeysBeyondTheBoundShareOneFlow) {
  WaitingQueue queue;
  const std::uint64_t most = WaitingQueue::most_keys;
  for (std::uint64_t key = 1; key <= most; ++key) queue.push(asks(key, 1));
  for (std::uint64_t key = 1; key <= 5; ++key) queue.push(asks(most + key, quantum));
  queue.push(asks(1, quantum));
  EXPECT_EQ(queue.push_out(WaitingQueue::Bound::requests).second.fair_key, most + 5) << "five stand together";
  std::vector<std::uint64_t> keys;
  while (const auto next = take_next(queue, all, at(0))) keys.push_back(next->second.fair_key);
  ASSERT_EQ(keys.size(), most + 5);
  EXPECT_EQ(keys[most], most + 1) << "the first of those beyond has its turn with the others";
  EXPECT_EQ(keys[most + 1], 1u);
  EXPECT_EQ(keys[most + 2], most + 2) << "and the next in the next round";
  queue.push(asks(most + 9, 1));
  EXPECT_EQ(keys_of_next(queue, 2), (std::vector<std::uint64_t>{most + 9, 0}));

  for (std::uint64_t key = 1; key <= most; ++key) queue.push(asks(key, 1));
  queue.push(asks(most + 1, 1));
  while (take_next(queue, all, at(0))) continue;
  for (std::uint64_t key = 1; key <= most; ++key) queue.push(asks(key, quantum));
  queue.push(asks(1, quantum));
  queue.push(asks(most + 1, quantum + 1000));
  keys_of_next(queue, static_cast<int>(most));
  EXPECT_EQ(keys_of_next(queue, 2), (std::vector<std::uint64_t>{1, most + 1})) << "it has no credit of before";
}

TEST(WaitingQueue, TheTokensAheadOfOneAreThoseThatGoBeforeIt) {
  WaitingQueue queue;
  for (int i = 0; i < 100; ++i) queue.push(asks(1, 10'000));
  queue.push(asks(2, 300));
  const Tokens turns = WaitingQueue::least_cost + quantum;
  EXPECT_EQ(queue.ahead_of(2), 300 + turns) << "a heavy key takes no more than its turns";
  EXPECT_EQ(queue.ahead_of(1), 1'000'000u + 300);
  queue.push(refused_elsewhere(3, 50));
  EXPECT_EQ(queue.ahead_of(2), 300 + turns + 50);
}

TEST(WaitingQueue, TheTokensAheadOfOneGoByTheShares) {
  WaitingQueue queue;
  for (int i = 0; i < 100; ++i) queue.push(with_share(1, 4, 10'000));
  queue.push(with_share(2, 0.5, 1000));
  EXPECT_EQ(queue.ahead_of(2), 1000 + 4 * (2 * 1000 + quantum));
}

TEST(WaitingQueue, TheTokensAheadAreThoseThatAreThereAndNotWhatTheyCost) {
  WaitingQueue queue;
  for (int i = 0; i < 100; ++i) queue.push(asks(1, 15));
  queue.push(asks(2, 15));
  EXPECT_EQ(queue.ahead_of(2), 15u + 5 * 15) << "five of them go before it";
  EXPECT_EQ(queue.ahead_of(1), 1500u + 15);
  for (int i = 0; i < 50; ++i) take_next(queue, [](const auto& one) { return one.fair_key == 1; }, at(0));
  EXPECT_EQ(queue.ahead_of(2), 15u + 5 * 15);
}

/// Deficit round robin as it is told, turn by turn and with a look at everything.
class PlainTurns {
 public:
  struct One {
    WaitTicket ticket;
    std::uint64_t key;
    Tokens prompt;
  };
  void push(WaitTicket ticket, std::uint64_t key, double share, Tokens prompt) {
    const auto is_it = [key](const Flow& flow) { return flow.key == key; };
    auto found = std::ranges::find_if(flows_, is_it);
    if (found == flows_.end()) found = flows_.insert(flows_.end(), {key, share, 0, {}});
    found->waiting.push_back({ticket, key, prompt});
  }
  void leave(WaitTicket ticket) {
    const auto is_it = [ticket](const One& one) { return one.ticket == ticket; };
    for (auto flow = flows_.begin(); flow != flows_.end(); ++flow) {
      if (std::erase_if(flow->waiting, is_it) == 0) continue;
      if (flow->waiting.empty()) {
        if (flow == flows_.begin()) in_turn_ = false;
        flows_.erase(flow);
      }
      return;
    }
  }
  /// Takes the oldest that fits of the flow whose turn it is.
  std::optional<One> take(Tokens room) {
    const auto fitting = [room](Flow& flow) {
      return std::ranges::find_if(flow.waiting, [room](const One& one) { return one.prompt <= room; });
    };
    if (std::ranges::none_of(flows_, [&](Flow& flow) { return fitting(flow) != flow.waiting.end(); })) return {};
    for (;;) {
      Flow& flow = flows_.front();
      const auto found = fitting(flow);
      const bool fits = found != flow.waiting.end();
      const auto price = cost(fits ? found->prompt : flow.waiting.front().prompt);
      const auto earns = std::llround(flow.share * double{quantum});
      if (!in_turn_ && flow.credit < price) flow.credit += earns;
      in_turn_ = true;
      if (flow.credit < price || !fits) {
        flows_.splice(flows_.end(), flows_, flows_.begin());
        in_turn_ = false;
        continue;
      }
      flow.credit = std::min<std::int64_t>(flow.credit - price, earns);
      const One taken = *found;
      flow.waiting.erase(found);
      if (flow.waiting.empty()) {
        flows_.pop_front();
        in_turn_ = false;
      }
      return taken;
    }
  }

 private:
  struct Flow {
    std::uint64_t key;
    double share;
    std::int64_t credit;
    std::vector<One> waiting;
  };
  static std::int64_t cost(Tokens prompt) { return static_cast<std::int64_t>(WaitingQueue::cost(asks(1, prompt))); }
  std::list<Flow> flows_;
  bool in_turn_ = false;
};

// Anything happens, in any order, to a queue beside plain deficit round robin: rounds in which nobody can go are given
// at once, and nobody may be better or worse off for that. An account says what must be there. Where all fit, no other
// key gets more between a push and its grant than the bound that the header states.
class QueuePlayer {
 public:
  explicit QueuePlayer(std::uint64_t seed) : random_(seed), all_fit_(seed % 2 == 0) {
    for (auto& share : shares_)
      if (seed % 3 != 0) share = std::array{0.1, 0.5, 1.0, 3.0, 10.0}[below(5)];
  }

  void run() {
    for (int i = 0; i < 1500 && !testing::Test::HasFailure(); ++i) {
      const auto what = below(100);
      if (what < 50) {
        push();
      } else if (what < 85) {
        grant();
      } else if (what < 95 && !account_.empty()) {
        const auto one = std::next(account_.begin(), static_cast<std::ptrdiff_t>(below(account_.size())));
        EXPECT_TRUE(queue_.leave(one->first));
        forget(one->first);
      } else if (account_.size() > 40) {
        forget(queue_.push_out(WaitingQueue::Bound::requests).first);
      }
      check_sums();
    }
    all_fit_ = true;
    while (!account_.empty() && !testing::Test::HasFailure()) grant();
    EXPECT_TRUE(queue_.empty());
    check_sums();
  }

 private:
  struct Known {
    std::uint64_t key;
    Tokens prompt, own_ahead;                ///< The latter as they cost.
    std::map<std::uint64_t, Tokens> others;  ///< What other keys got since, as it costs.
  };

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  static Tokens cost(Tokens prompt) { return WaitingQueue::cost(asks(1, prompt)); }
  Tokens some_prompt() { return below(10) == 0 ? sizes[below(std::size(sizes))] : below(3000); }

  void push() {
    const std::uint64_t key = 1 + below(below(2) ? 2 : 8);  // Two keys send most.
    const Tokens prompt = some_prompt();
    Tokens own = cost(prompt);
    for (const auto& [ticket, known] : account_)
      if (known.key == key) own += cost(known.prompt);
    const WaitTicket ticket = queue_.push(with_share(key, shares_[key], prompt));
    plain_.push(ticket, key, shares_[key], prompt);
    account_[ticket] = {key, prompt, own, {}};
  }

  void forget(WaitTicket ticket) {
    EXPECT_EQ(account_.erase(ticket), 1u);
    plain_.leave(ticket);
  }

  void grant() {
    const Tokens room = all_fit_ ? longest : some_prompt();
    const auto next = take_next(queue_, up_to(room), at(0));
    const auto expected = plain_.take(room);
    ASSERT_EQ(next.has_value(), expected.has_value());
    if (!next) return;
    ASSERT_EQ(next->first, expected->ticket);
    const auto found = account_.find(next->first);
    ASSERT_NE(found, account_.end()) << "it was granted or refused before";
    const Known granted = found->second;
    account_.erase(found);
    for (const auto& [key, tokens] : granted.others) {
      const double ratio = shares_[key] / shares_[granted.key];
      const double bound =
          ratio * static_cast<double>(granted.own_ahead) + 2 * shares_[key] * double{quantum} + double{longest};
      EXPECT_LE(static_cast<double>(tokens), bound);
    }
    for (auto& [ticket, known] : account_) {
      if (known.key != granted.key && bound_holds()) known.others[granted.key] += cost(granted.prompt);
    }
  }
  bool bound_holds() const { return all_fit_ && !mixed_; }

  void check_sums() const {
    Tokens tokens = 0;
    for (const auto& [ticket, known] : account_) tokens += known.prompt;
    EXPECT_EQ(queue_.tokens(), tokens);
    EXPECT_EQ(queue_.size(), account_.size());
    EXPECT_EQ(queue_.figures(at(0)).waiting_bytes, account_.size());
  }

  static constexpr Tokens sizes[] = {0, 15, 600, 3000, 20'000, 50'000}, longest = 50'000;
  std::mt19937_64 random_;
  bool all_fit_;
  const bool mixed_ = !all_fit_;  ///< Not all have fitted from the beginning.
  WaitingQueue queue_;
  PlainTurns plain_;
  std::map<WaitTicket, Known> account_;
  std::array<double, 9> shares_{1, 1, 1, 1, 1, 1, 1, 1, 1};  ///< By key.
};

TEST(WaitingQueueProperty, TurnsAreThoseOfPlainDeficitRoundRobinAndNothingIsLost) {
  for (std::uint64_t seed = 1; seed <= 40 && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    QueuePlayer(seed).run();
  }
}

// Heavy keys send prompts of any size, and what fits changes from look to look. A light key's request always fits.
TEST(WaitingQueueProperty, ALightKeyWaitsForAHandfulOfRequestsOfEachOtherKey) {
  constexpr std::uint64_t heavy_keys = 5, light = 99;
  constexpr std::size_t handful = quantum / WaitingQueue::least_cost + 1;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    const Tokens sizes[] = {0, 1, 15, 600, 3000, 20'000, 400'000};
    WaitingQueue queue;
    for (std::uint64_t key = 1; key <= heavy_keys; ++key)
      for (int i = 0; i < 40; ++i) queue.push(asks(key, below(2) ? below(20) : sizes[below(std::size(sizes))]));
    const auto look = [&] {
      return take_next(queue, up_to(below(2) ? 20 : sizes[below(std::size(sizes))] + 20), at(0));
    };
    for (std::size_t before = below(60); before > 0; --before) look();
    queue.push(asks(light, 15));
    std::map<std::uint64_t, std::size_t> got;
    for (auto next = look(); next->second.fair_key != light; next = look()) ++got[next->second.fair_key];
    for (const auto& [key, requests] : got) EXPECT_LE(requests, handful) << "seed " << seed;
  }
}

}  // namespace
}  // namespace weir::balancer

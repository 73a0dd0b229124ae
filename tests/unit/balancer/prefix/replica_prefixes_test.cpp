// The model of a cache against a list in the order of use, which is what it stands for.
#include <gtest/gtest.h>

#include <cstdint>
#include <list>
#include <random>
#include <unordered_map>
#include <vector>

#include "balancer/prefix/replica_prefixes.hpp"

namespace weir::balancer {
namespace {

using Epoch = PrefixHoldings::Epoch;

/// An exact list of what was used last.
class Lru {
 public:
  explicit Lru(Tokens capacity) : capacity_(capacity) {}
  void use(std::size_t id, Tokens segment) {
    if (const auto found = at_.find(id); found != at_.end()) {
      held_ -= found->second->second;
      order_.erase(found->second);
    }
    order_.emplace_back(id, segment);
    at_[id] = std::prev(order_.end());
    held_ += segment;
    while (held_ > capacity_) {
      held_ -= order_.front().second;
      at_.erase(order_.front().first);
      order_.pop_front();
    }
  }
  bool holds(std::size_t id) const { return at_.contains(id); }
  Tokens held() const { return held_; }

 private:
  Tokens capacity_, held_ = 0;
  std::list<std::pair<std::size_t, Tokens>> order_;
  std::unordered_map<std::size_t, std::list<std::pair<std::size_t, Tokens>>::iterator> at_;
};

TEST(PrefixHoldings, HoldWhatWasUsedLastToABucket) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    std::mt19937_64 random(seed);
    const Tokens capacity = 20'000 + random() % 200'000;
    constexpr std::size_t ids = 4000;
    std::vector<Tokens> segments(ids);
    for (Tokens& segment : segments) segment = 16 + random() % 400;
    PrefixHoldings holdings(capacity);
    Lru exact(capacity);
    std::vector<Epoch> used(ids, 0);
    // Some are used over and over, so that old buckets empty while new ones open.
    std::size_t hot = 50, wrong = 0, looks = 0;
    double off = 0;
    for (int step = 0; step < 100'000; ++step) {
      if (step % 9000 == 0) hot = 1 + random() % ids;
      const std::size_t id = random() % (random() % 4 == 0 ? ids : hot);
      used[id] = holdings.use(used[id], segments[id]);
      exact.use(id, segments[id]);
      ASSERT_LE(holdings.held(), capacity);
      if (step % 50 != 0) continue;
      const Tokens difference = exact.held() - std::min(exact.held(), holdings.held());
      EXPECT_LE(holdings.held(), exact.held() + 400);
      EXPECT_LE(difference, capacity / 32) << "seed " << seed << ", step " << step;
      off += static_cast<double>(difference) / static_cast<double>(capacity);
      const std::size_t other = random() % ids;
      wrong += holdings.holds(used[other]) != exact.holds(other);
      ++looks;
    }
    EXPECT_LT(off / static_cast<double>(looks), 0.01) << "seed " << seed;
    EXPECT_LT(static_cast<double>(wrong) / static_cast<double>(looks), 0.02) << "seed " << seed;
  }
}

TEST(PrefixHoldings, AWipeLeavesNothing) {
  PrefixHoldings holdings(10'000);
  std::vector<Epoch> used;
  for (int i = 0; i < 300; ++i) used.push_back(holdings.use(0, 100));
  EXPECT_TRUE(holdings.holds(used.back()));
  holdings.wipe();
  EXPECT_EQ(holdings.held(), 0u);
  for (const Epoch epoch : used) EXPECT_FALSE(holdings.remembers(epoch));
  EXPECT_TRUE(holdings.holds(holdings.use(used[0], 100)));
  EXPECT_EQ(holdings.held(), 100u);
}

TEST(PrefixHoldings, WhatLeftLastIsAGhostUntilAQuarterMoreWasUsed) {
  PrefixHoldings holdings(25'600);
  const Epoch first = holdings.use(0, 100);
  Tokens after = 0;
  while (holdings.holds(first)) holdings.use(0, 100), after += 100;
  EXPECT_NEAR(static_cast<double>(after), 25'600, 400);
  EXPECT_TRUE(holdings.remembers(first));
  while (holdings.remembers(first)) holdings.use(0, 100), after += 100;
  EXPECT_NEAR(static_cast<double>(after), 32'000, 500);
}

TEST(PrefixHoldings, DepthIsTheRoomThatItTakes) {
  PrefixHoldings holdings(100'000);
  const Epoch first = holdings.use(0, 1000);
  EXPECT_NEAR(static_cast<double>(holdings.depth(first)), 1000, 400);
  for (int i = 0; i < 50; ++i) holdings.use(0, 1000);
  EXPECT_NEAR(static_cast<double>(holdings.depth(first)), 51'000, 1000);
  EXPECT_LE(holdings.depth(holdings.use(first, 1000)), 2000u);
}

TEST(PrefixHoldings, LessCapacityLeavesAtOnce) {
  PrefixHoldings holdings(100'000);
  std::vector<Epoch> used;
  for (int i = 0; i < 90; ++i) used.push_back(holdings.use(0, 1000));
  holdings.set_capacity(20'000);
  EXPECT_LE(holdings.held(), 20'000u);
  EXPECT_GE(holdings.held(), 18'000u);
  EXPECT_FALSE(holdings.holds(used[0]));
  EXPECT_TRUE(holdings.holds(used.back()));
}

}  // namespace
}  // namespace weir::balancer

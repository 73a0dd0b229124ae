#include "balancer/returns.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "requests.hpp"

namespace weir::balancer {
namespace {

TEST(Returns, AreThoseOfAPlainList) {
  std::mt19937_64 random(1);
  const auto any = [&random](std::uint64_t below) { return random() % below; };
  for (int round = 0; round < 20; ++round) {
    Returns returns;
    struct Told {
      double since = 0, seconds = 0;
      Tokens tokens = 0;
      bool counts = true;
      double from() const { return since + seconds; }
      double mean() const { return since + 1.25 * seconds; }
      double last() const { return since + 1.5 * seconds + 2; }
    };
    std::map<Returns::Identity, Told> list;
    double now = 0;
    for (int step = 0; step < 200; ++step) {
      const Returns::Identity who{any(4), any(3), any(4)};
      switch (any(3)) {
        case 0:
          list[who] = {now, static_cast<double>(any(20)), 100 + 100 * any(2)};
          returns.told(who, list[who].tokens, {at(list[who].from()), at(list[who].mean()), at(list[who].last())});
          break;
        case 1:
          EXPECT_EQ(returns.came_back(who, at(now)), list.contains(who) && now >= list[who].from());
          list.erase(who);
          break;
        default:
          now += static_cast<double>(any(3));
          for (auto& [one, told] : list) told.counts = told.counts && told.mean() > now;
          std::erase_if(list, [now](const auto& one) { return one.second.last() <= now; });
          returns.pass(at(now));
      }
      std::map<std::uint64_t, Work> of;
      for (const auto& [one, due] : list)
        if (due.counts) of[one.key].add({1, due.tokens});
      constexpr Work caps{2, 300};
      for (std::uint64_t key = 0; key < 4; ++key) {
        EXPECT_EQ(returns.of(key).requests, of[key].requests);
        EXPECT_EQ(returns.of(key).tokens, of[key].tokens);
        Work others;
        for (std::uint64_t other = 0; other < 4; ++other)
          if (other != key) others.add(of[other].up_to(caps));
        const Work told = returns.of_others(key, caps);
        EXPECT_NEAR(static_cast<double>(told.requests), static_cast<double>(others.requests), 0.5);
        EXPECT_NEAR(static_cast<double>(told.tokens), static_cast<double>(others.tokens), 0.03 * 1200);
      }
    }
  }
}

TEST(Returns, AreBoundedInNumber) {
  Returns returns;
  for (std::uint64_t i = 0; i < 2 * Returns::most; ++i) returns.told({.key = 1, .conversation = i}, 0, {at(10), at(11), at(12)});
  EXPECT_EQ(returns.of(1).requests, Returns::most);
  returns.pass(at(11));
  EXPECT_EQ(returns.of(1).requests, 0u);
  EXPECT_FALSE(returns.came_back({.key = 1, .conversation = 0}, at(9))) << "too soon";
  EXPECT_TRUE(returns.came_back({.key = 1, .conversation = 1}, at(11)));
  returns.pass(at(12));
  EXPECT_FALSE(returns.came_back({.key = 1, .conversation = 2}, at(12)));
}

/// The estimate of the same prompt changes with each answer that teaches.
TEST(Returns, AreKnownAgainWhateverThePoolHasLearnedMeanwhile) {
  auto only = replica("a");
  only.max_in_flight = 1;
  const auto pool = pool_of({only});
  const auto refused = [&](double now) {
    PlacementRequest same{std::make_shared<const RequestFacts>(chat_of(400'000))};
    same.bytes = 400'100;
    const Offered offered = pool->offer(same, at(now));
    return std::get<Refused>(offered).retry_after;
  };
  Lease busy = admitted(pool->offer({std::make_shared<const RequestFacts>(chat_of(4000))}, at(1)));
  const unsigned first = refused(1);
  LeaseEnd end(EndCause::answered);
  end.prompt_tokens = 1200;
  busy.end(end, at(1.1));
  busy = admitted(pool->offer({std::make_shared<const RequestFacts>(chat_of(4000))}, at(1.2)));
  EXPECT_LE(refused(1.3), first + first / 3) << "It counts once.";
}

}  // namespace
}  // namespace weir::balancer

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
    std::map<Returns::Identity, double> list;
    double now = 0;
    for (int step = 0; step < 200; ++step) {
      const Returns::Identity who{any(4), any(3), 100 + 100 * any(2), any(2)};
      switch (any(3)) {
        case 0:
          list[who] = now + static_cast<double>(any(20));
          returns.told(who, at(list[who]));
          break;
        case 1:
          list.erase(who);
          returns.came_back(who);
          break;
        default:
          now += static_cast<double>(any(3));
          std::erase_if(list, [now](const auto& one) { return one.second <= now; });
          returns.pass(at(now));
      }
      std::map<std::uint64_t, Work> of;
      for (const auto& [one, due] : list) of[one.key].add({1, one.prompt});
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
  for (std::uint64_t i = 0; i < 2 * Returns::most; ++i) returns.told({.key = 1, .conversation = i}, at(10));
  EXPECT_EQ(returns.of(1).requests, Returns::most);
  returns.pass(at(10));
  EXPECT_EQ(returns.of(1).requests, 0u);
}

}  // namespace
}  // namespace weir::balancer

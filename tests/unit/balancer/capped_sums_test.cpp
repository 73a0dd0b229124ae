#include "balancer/capped_sums.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace weir::balancer {
namespace {

// A plain sum over all of them stands beside it. Sizes crowd around the cap, where totals tell least.
TEST(CappedSums, AreThePlainSumsOrThreePerCentMoreInAHandfulOfBuckets) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 random(seed);
    const auto some = [&](double from, double to) { return std::uniform_real_distribution<double>(from, to)(random); };
    std::vector<std::pair<double, double>> all;
    CappedSums sums;
    for (int step = 0; step < 3000; ++step) {
      if (all.size() > 500 || (!all.empty() && random() % 3 == 0)) {
        std::swap(all[random() % all.size()], all.back());
        sums.remove(all.back().first, all.back().second);
        all.pop_back();
      } else {
        const double size = std::exp2(seed % 2 ? some(0, 40) : some(9.9, 10.2));
        all.emplace_back(size, random() % 2 ? size : some(0, size));
        sums.add(all.back().first, all.back().second);
      }
      if (step % 10 != 0) continue;
      const double cap = seed % 2 ? std::exp2(some(0, 40)) : some(900, 1200);
      double plain = 0;
      for (const auto& [size, amount] : all) plain += amount * std::min(1.0, cap / size);
      ASSERT_GE(sums.capped_at(cap), plain * (1 - 1e-9));
      ASSERT_LE(sums.capped_at(cap), plain * 1.03);
      ASSERT_LE(sums.buckets(), 8u * 41);
    }
  }
}

TEST(CappedWork, LeavesOutTheOneItIsFor) {
  CappedWork work;
  work.add({3, 900});
  work.add({40, 0});
  work.add({1, 50'000});
  const auto others = work.of_others({3, 900}, {5, 2000});
  EXPECT_EQ(others.requests, 5u + 1);
  EXPECT_EQ(others.tokens, 2000u);
  EXPECT_EQ(work.of_others({}, {5, 2000}).requests, 3u + 5 + 1) << "one who has nothing";
  work.remove({40, 0});
  EXPECT_EQ(work.of_others({3, 900}, {5, 2000}).requests, 1u);
}

}  // namespace
}  // namespace weir::balancer

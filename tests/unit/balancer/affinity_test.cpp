#include <algorithm>
#include <map>

#include "balancer/affinity.hpp"
#include "metrics/vocabulary.hpp"
#include "requests.hpp"

namespace weir::balancer {
namespace {

constexpr double day = 24 * 3600;

TEST(Homes, AreFoundByTheIdThatWasNoted) {
  Homes homes;
  homes.note(1, {10, 7}, at(0));
  homes.note(2, {20}, at(0));
  EXPECT_EQ(homes.find(1, at(1)), (Home{10, 7}));
  EXPECT_EQ(homes.find(2, at(1)), Home{20});
  homes.note(1, {30}, at(2));
  EXPECT_EQ(homes.find(1, at(3)), Home{30}) << "the last one counts";
  EXPECT_EQ(homes.size(), 2u);
}

TEST(Homes, AreNotNotedByALook) {
  Homes homes;
  for (std::uint64_t id = 1; id < 1000; ++id) EXPECT_EQ(homes.find(id, at(0)), std::nullopt);
  EXPECT_EQ(homes.size(), 0u);
}

TEST(Homes, LoseTheIdThatWasUsedLeastRecentlyWhenFull) {
  Homes homes;
  for (std::uint64_t id = 1; id <= Homes::most; ++id) homes.note(id, {id}, at(0));
  EXPECT_EQ(homes.find(1, at(1)), Home{1});
  homes.note(2, {22}, at(1));
  for (std::uint64_t id = Homes::most + 1; id <= Homes::most + 3; ++id) homes.note(id, {id}, at(2));
  EXPECT_EQ(homes.size(), Homes::most);
  for (const std::uint64_t gone : {3U, 4U, 5U}) EXPECT_EQ(homes.find(gone, at(3)), std::nullopt) << gone;
  for (const std::uint64_t there : {std::size_t{1}, std::size_t{2}, std::size_t{6}, Homes::most + 3})
    EXPECT_TRUE(homes.find(there, at(3))) << there;
}

TEST(Homes, AreForgottenADayAfterTheirLastUse) {
  Homes homes;
  for (const std::uint64_t id : {1U, 2U, 3U}) homes.note(id, {id}, at(0));
  EXPECT_TRUE(homes.find(1, at(day - 1)));
  EXPECT_EQ(homes.find(2, at(day)), std::nullopt);
  EXPECT_TRUE(homes.find(1, at(2 * day - 2))) << "a look is a use";
  homes.note(4, {4}, at(2 * day - 2));
  EXPECT_EQ(homes.size(), 2u) << "old ones leave the memory";
}

constexpr int names = 20'000;

struct Ranked {
  std::string url;
  double weight = 1;
};

std::string first_of(const std::vector<Ranked>& replicas, int name) {
  const std::uint64_t number = metrics::hash_of_name("session " + std::to_string(name));
  return std::ranges::max(
             replicas, {},
             [&](const Ranked& one) { return rendezvous(number, metrics::hash_of_name(one.url), one.weight); })
      .url;
}

TEST(Rendezvous, SharesNamesOutByWeight) {
  const std::vector<Ranked> replicas{{"a"}, {"b"}, {"c", 2}};
  std::map<std::string, int> counts;
  for (int name = 0; name < names; ++name) ++counts[first_of(replicas, name)];
  EXPECT_NEAR(counts["a"], names / 4, names / 50);
  EXPECT_NEAR(counts["b"], names / 4, names / 50);
  EXPECT_NEAR(counts["c"], names / 2, names / 50);
}

TEST(Rendezvous, MovesOnlyTheShareOfAReplicaThatComesOrGoes) {
  const std::vector<Ranked> four{{"a"}, {"b"}, {"c"}, {"d"}}, five{{"a"}, {"b"}, {"c"}, {"d"}, {"e"}};
  int moved = 0;
  for (int name = 0; name < names; ++name) {
    const auto before = first_of(four, name), after = first_of(five, name);
    if (after == before) continue;
    ++moved;
    ASSERT_EQ(after, "e") << "nothing moves between those that stay";
  }
  EXPECT_NEAR(moved, names / 5, names / 50);
}

/// Several weirs, and one after a restart, choose alike.
TEST(Rendezvous, IsTheSameInEveryProcess) {
  EXPECT_EQ(metrics::hash_of_name("resp_1"), 0xddcf3f53ebc8be27u);
  EXPECT_NEAR(rendezvous(1, 2, 1), 0.650458825016, 1e-9);
}

}  // namespace
}  // namespace weir::balancer

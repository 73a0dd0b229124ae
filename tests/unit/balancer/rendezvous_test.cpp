#include "balancer/rendezvous.hpp"

#include <algorithm>
#include <map>

#include "metrics/names.hpp"
#include "requests.hpp"

namespace weir::balancer {
namespace {

constexpr int names = 20'000;

struct Ranked {
  std::string url;
  double weight = 1;
};

std::string first_of(const std::vector<Ranked>& replicas, int name) {
  const std::uint64_t number = metrics::hash_of_name("session " + std::to_string(name));
  return std::ranges::max(replicas, {}, [&](const Ranked& one) {
           return rendezvous(number, metrics::hash_of_name(one.url), one.weight);
         }).url;
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

// A full listener of operators: which connection gets in, and which one goes for it.
#include "proxy/control/operator_places.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace weir::proxy::control {
namespace {

using Does = OperatorPlaces::Does;
using Place = OperatorPlaces::Place;

struct Connections {
  explicit Connections(std::size_t most) : places(std::make_shared<OperatorPlaces>(most)) {}
  /// Returns its number, or -1 if it found no room.
  int add() {
    if (!places->make_room().is_there) return -1;
    const auto number = next++;
    open[number] = std::make_unique<Place>(places, [this, number] { closed.push_back(number); });
    return number;
  }

  std::shared_ptr<OperatorPlaces> places;
  std::map<int, std::unique_ptr<Place>> open;
  std::vector<int> closed;
  int next = 0;
};

TEST(OperatorPlaces, TheOneThatWaitsLongestGoes) {
  Connections all(3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(all.add(), i);
  all.open[0]->begin(Does::answer);
  EXPECT_EQ(all.add(), 3);
  EXPECT_THAT(all.closed, testing::ElementsAre(1));
  all.open[0]->begin(Does::wait);  // The next request on its connection: it waits since now.
  EXPECT_EQ(all.add(), 4);
  EXPECT_EQ(all.add(), 5);
  EXPECT_THAT(all.closed, testing::ElementsAre(1, 2, 3));
  EXPECT_EQ(all.add(), 6);
  EXPECT_THAT(all.closed, testing::ElementsAre(1, 2, 3, 0));
}

TEST(OperatorPlaces, WhereNobodyWaitsTheSlowestTakerGoesAndNeverOneThatIsWorkedFor) {
  Connections all(3);
  for (int i = 0; i < 3; ++i) all.add();
  all.open[2]->begin(Does::take);
  all.open[1]->begin(Does::take);
  all.open[0]->begin(Does::answer);
  EXPECT_EQ(all.add(), 3);
  EXPECT_THAT(all.closed, testing::ElementsAre(2));
  all.open[3]->begin(Does::answer);
  all.open[1]->begin(Does::answer);
  EXPECT_EQ(all.add(), -1);
  EXPECT_EQ(all.places->taken(), 3u);
  all.open.erase(1);
  EXPECT_EQ(all.add(), 4);
}

/// Whatever happens: never more than the limit, and a newcomer gets in as long as anybody waits or takes.
TEST(OperatorPlaces, AnyCourseKeepsTheLimitAndLetsNewcomersIn) {
  std::mt19937 random(5);
  Connections all(4);
  std::map<int, Does> doing;
  for (int step = 0; step < 20'000; ++step) {
    const auto some = [&] { return std::next(doing.begin(), static_cast<long>(random() % doing.size())); };
    const auto what = random() % 4;
    if (what == 0 || doing.empty()) {
      const bool may_go = std::ranges::any_of(doing, [](const auto& one) { return one.second != Does::answer; });
      const auto number = all.add();
      ASSERT_EQ(number >= 0, may_go || doing.size() < 4);
      for (const auto gone : all.closed) {
        ASSERT_NE(doing.at(gone), Does::answer);
        doing.erase(gone);
        all.open.erase(gone);  // Its coroutine ends a little later.
      }
      all.closed.clear();
      if (number >= 0) doing[number] = Does::wait;
    } else if (what == 1) {
      const auto one = some();
      all.open.erase(one->first);
      doing.erase(one);
    } else {
      const auto one = some();
      one->second = static_cast<Does>(random() % 3);
      all.open[one->first]->begin(one->second);
    }
    ASSERT_EQ(all.places->taken(), doing.size());
    ASSERT_LE(doing.size(), 4u);
  }
}

TEST(OperatorPlaces, OneThatHasGoneGivesNothingBackTwice) {
  Connections all(1);
  all.add();
  all.add();
  EXPECT_THAT(all.closed, testing::ElementsAre(0));
  all.open[0]->begin(Does::take);
  all.open.erase(0);
  EXPECT_EQ(all.places->taken(), 1u);
  EXPECT_EQ(all.add(), 2);
  EXPECT_THAT(all.closed, testing::ElementsAre(0, 1));
}

}  // namespace
}  // namespace weir::proxy::control

#include "balancer/story/second_opinions.hpp"

#include <gtest/gtest.h>

#include <string>

namespace weir::balancer::story {
namespace {

using Opinion = SecondOpinions::Opinion;
using std::chrono::seconds;

constexpr metrics::Moment start{seconds(1000)};

TEST(SecondOpinions, HoldForTenSecondsForThatReplicaStatusAndModelAlone) {
  SecondOpinions opinions;
  const SecondOpinions::Case one{0, 404, "m"};
  EXPECT_EQ(opinions.of(one, start), Opinion::none);
  opinions.note(one, Opinion::same, start);
  EXPECT_EQ(opinions.of(one, start + seconds(10) - std::chrono::nanoseconds(1)), Opinion::same);
  EXPECT_EQ(opinions.of(one, start + seconds(10)), Opinion::none);
  EXPECT_EQ(opinions.of({1, 404, "m"}, start), Opinion::none);
  EXPECT_EQ(opinions.of({0, 401, "m"}, start), Opinion::none);
  EXPECT_EQ(opinions.of({0, 404, "n"}, start), Opinion::none);
}

TEST(SecondOpinions, TheLatestHolds) {
  SecondOpinions opinions;
  const SecondOpinions::Case one{0, 404, "m"};
  opinions.note(one, Opinion::same, start);
  opinions.note(one, Opinion::better, start + seconds(5));
  EXPECT_EQ(opinions.of(one, start + seconds(12)), Opinion::better);
}

TEST(SecondOpinions, AreBoundedAndTheOldestGoesFirst) {
  SecondOpinions opinions;
  for (std::size_t i = 0; i <= SecondOpinions::most; ++i)
    opinions.note({0, 404, std::to_string(i)}, Opinion::same, start + std::chrono::milliseconds(i));
  EXPECT_EQ(opinions.of({0, 404, "0"}, start), Opinion::none);
  EXPECT_EQ(opinions.of({0, 404, "1"}, start), Opinion::same);
  const auto youngest = std::to_string(SecondOpinions::most);
  opinions.note({0, 404, youngest}, Opinion::better, start);
  EXPECT_EQ(opinions.of({0, 404, youngest}, start), Opinion::better);
  EXPECT_EQ(opinions.of({0, 404, "1"}, start), Opinion::same) << "what is known already needs no room";
}

}  // namespace
}  // namespace weir::balancer::story

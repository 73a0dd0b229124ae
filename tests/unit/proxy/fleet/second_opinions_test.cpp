#include "proxy/fleet/second_opinions.hpp"

#include <gtest/gtest.h>

#include <string>

namespace weir::proxy::fleet {
namespace {

using Opinion = SecondOpinions::Opinion;
using std::chrono::seconds;

constexpr metrics::Moment start{seconds(1000)};

TEST(ErrorAnswers, TellFullReplicasFromDoubtfulOnes) {
  for (unsigned status = 100; status < 600; ++status) {
    EXPECT_EQ(is_full(status), status == 408 || status == 429 || status == 503) << status;
    EXPECT_EQ(is_doubtful(status), status == 401 || status == 403 || status == 404) << status;
  }
}

TEST(ErrorAnswers, AreWorthMoreTheMoreTheyTellTheClient) {
  const unsigned falling[][4]{{429, 429, 429, 429}, {503, 408, 503, 408}, {401, 403, 404, 404}, {500, 502, 529, 200}};
  for (std::size_t i = 0; i < std::size(falling); ++i)
    for (const auto better : falling[i]) {
      for (const auto equal : falling[i]) EXPECT_EQ(worth(better), worth(equal));
      for (std::size_t j = i + 1; j < std::size(falling); ++j)
        for (const auto worse : falling[j]) EXPECT_GT(worth(better), worth(worse)) << better << " " << worse;
    }
}

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
}  // namespace weir::proxy::fleet

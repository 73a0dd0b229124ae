#include "balancer/story/status.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <iterator>

namespace weir::balancer::story {
namespace {

TEST(ErrorAnswers, TellFullReplicasFromDoubtfulOnes) {
  for (unsigned status = 100; status < 600; ++status) {
    EXPECT_EQ(another_may_have_room(status), status == 408 || status == 429 || status == 503) << status;
    EXPECT_EQ(needs_second_opinion(status), status == 401 || status == 403 || status == 404 || status == 501) << status;
    if (status < 400) continue;
    EXPECT_EQ(is_failure(status) + another_may_have_room(status) + refuses_the_request(status), 1) << status;
    EXPECT_TRUE(is_failure(status) || !(status == 424 || status == 500 || status == 502)) << status;
    if (refuses_the_content(status)) EXPECT_TRUE(refuses_the_request(status)) << status;
  }
}

TEST(ErrorAnswers, AreKeptWhereAnotherReplicaMayDoBetter) {
  for (unsigned status = 100; status < 600; ++status) {
    const bool of_any = status >= 500 || status == 401 || status == 403 || status == 404 || status == 408 ||
                        status == 424 || status == 429;
    EXPECT_EQ(may_be_bettered(status, false), of_any) << status;
    EXPECT_EQ(may_be_bettered(status, true), status >= 400) << status;
  }
}

TEST(ErrorAnswers, AreWorthMoreTheMoreTheyTellTheClient) {
  const unsigned falling[][4]{{429, 429, 429, 429}, {503, 408, 503, 408}, {401, 403, 404, 404}, {500, 502, 529, 200}};
  for (std::size_t i = 0; i < std::size(falling); ++i)
    for (const auto better : falling[i]) {
      for (const auto equal : falling[i]) EXPECT_EQ(error_rank(better), error_rank(equal));
      for (std::size_t j = i + 1; j < std::size(falling); ++j)
        for (const auto worse : falling[j]) EXPECT_GT(error_rank(better), error_rank(worse)) << better << " " << worse;
    }
}

}  // namespace
}  // namespace weir::balancer::story

#include "lab/sweep/point.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/lab/load/made_results.hpp"

namespace weir::lab::sweep {
namespace {

using load::made_result;
using testing::Each;
using testing::FloatNear;
using testing::SizeIs;

/// Returns batches of two, one after the other, with these gaps between their tokens.
std::vector<BatchResults> batches(const std::vector<double>& gaps) {
  std::vector<BatchResults> all;
  double begin = 0;
  for (const double gap : gaps) {
    BatchResults& results = all.emplace_back();
    for (const double sent : {begin, begin + 0.001}) {
      results.push_back(made_result({.sent = sent, .ttft = 0.2, .gap = gap, .events = 31}));
    }
    begin += 100;
  }
  return all;
}

TEST(LoadPoint, LeavesTheWarmUpOut) {
  const auto point = load_point(2, batches({0.5, 0.01, 0.01}), 1);
  EXPECT_EQ(point.batches, 2u);
  ASSERT_TRUE(point.decode);
  EXPECT_THAT(point.decode->latency, Each(FloatNear(0.01F, 1e-4F)));
  ASSERT_TRUE(point.prefill);
  EXPECT_THAT(point.prefill->latency, SizeIs(4));
  EXPECT_NEAR(point.prefill->tokens_per_second, 200 / 0.201, 1);
  EXPECT_NEAR(point.prefill->batch_seconds, 0.201, 1e-4);
}

TEST(LoadPoint, GivesTheSpreadOfTheBatches) {
  const auto point = load_point(2, batches({0.01, 0.02}), 0);
  ASSERT_TRUE(point.decode);
  EXPECT_NEAR(point.decode->fastest, 200, 2);
  EXPECT_NEAR(point.decode->slowest, 100, 1);
  EXPECT_GT(point.decode->tokens_per_second, point.decode->slowest);
  EXPECT_LT(point.decode->tokens_per_second, point.decode->fastest);
}

TEST(LoadPoint, LeavesOutABatchInWhichARequestFailed) {
  auto all = batches({0.01, 0.01, 0.01});
  for (load::Result* failed : {&all[0][0], &all[1][0]}) {
    failed->outcome = "http_503";
    failed->detail = "busy";
  }
  const auto point = load_point(2, all, 1);
  EXPECT_EQ(point.batches, 1u);
  EXPECT_EQ(point.left_out, 1u);
  EXPECT_EQ(point.failed, 2u);
  EXPECT_EQ(point.failure, "http_503: busy");
}

TEST(LoadPoint, LeavesOutABatchThatItsUserEnded) {
  auto all = batches({0.01, 0.01});
  all[1][1].outcome = "unfinished";
  const auto point = load_point(2, all, 0);
  EXPECT_EQ(point.batches, 1u);
  EXPECT_EQ(point.failed, 0u) << "no failure of the replica's";
  EXPECT_EQ(point.left_out, 0u);
}

TEST(LoadPoint, WithoutWholeBatchesHasNoFigures) {
  const auto point = load_point(8, batches({0.01}), 0);
  EXPECT_EQ(point.batches, 0u);
  EXPECT_FALSE(point.prefill);
  EXPECT_FALSE(point.decode);
}

TEST(LoadPoint, SaysWhyItHasNoDecode) {
  const std::vector<BatchResults> all{
      {made_result({.sent = 0, .ttft = 0.1, .events = 20}), made_result({.sent = 0.01, .ttft = 9, .events = 20})}};
  const auto point = load_point(2, all, 0);
  EXPECT_TRUE(point.prefill);
  EXPECT_FALSE(point.decode);
  EXPECT_EQ(point.steady, 0u);
  EXPECT_EQ(point.unsteady, Unsteady::not_together);
}

TEST(LoadPoint, OfAnswersThatCameInOneReadHasNoDecode) {
  const auto point = load_point(2, batches({0}), 0);
  EXPECT_TRUE(point.prefill);
  EXPECT_FALSE(point.decode) << "no rate is infinite";
}

TEST(LoadPoint, WhoseClockDidNotMoveHasNoRate) {
  const std::vector<BatchResults> all{{made_result({.ttft = 0})}};
  EXPECT_FALSE(load_point(1, all, 0).prefill);
}

TEST(LoadPoint, SaysThatAnAnswerHadNoToken) {
  auto all = batches({0.01, 0.01});
  all[1][0] = made_result({.events = 0});
  const auto point = load_point(2, all, 0);
  EXPECT_EQ(point.left_out, 1u);
  EXPECT_EQ(point.failed, 0u);
  EXPECT_EQ(point.without_token, 1u);
}

TEST(Operations, AreThePointsThatHaveThePhase) {
  std::vector<LoadPoint> points(2);
  points[0].concurrency = 4;
  points[0].decode = Phase{{0.04F, 0.01F, 0.01F}, 300, 300, 300, 1};
  points[1].concurrency = 8;
  const auto operations = operations_of(points, &LoadPoint::decode);
  ASSERT_EQ(operations.size(), 1u);
  EXPECT_EQ(operations[0].concurrency, 4u);
  EXPECT_NEAR(operations[0].latency, 0.02, 1e-6);
  EXPECT_EQ(operations[0].throughput, 300);
}

}  // namespace
}  // namespace weir::lab::sweep

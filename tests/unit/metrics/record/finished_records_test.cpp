#include "metrics/record/finished_records.hpp"

#include <gtest/gtest.h>

namespace weir::metrics::record {
namespace {

RequestRecord with_id(std::string id) {
  RequestRecord record;
  record.id = std::move(id);
  return record;
}

TEST(FinishedRecords, ComeInOrderAndOnce) {
  FinishedRecords finished;
  EXPECT_TRUE(finished.put(with_id("a")));
  EXPECT_TRUE(finished.put(with_id("b")));
  const auto taken = finished.take();
  ASSERT_EQ(taken.size(), 2U);
  EXPECT_EQ(taken[0].id, "a");
  EXPECT_EQ(taken[1].id, "b");
  EXPECT_TRUE(finished.take().empty());
}

TEST(FinishedRecords, TheNextOnesGetTheMemoryOfThoseUsed) {
  FinishedRecords finished;
  finished.put(with_id("a"));
  auto taken = finished.take();
  const auto* const memory = taken.data();
  taken = finished.take(std::move(taken));
  EXPECT_TRUE(taken.empty());
  finished.put(with_id("b"));
  taken = finished.take(std::move(taken));
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].id, "b");
  EXPECT_EQ(taken.data(), memory);
}

TEST(FinishedRecords, MemoryOfACrowdIsNotKept) {
  FinishedRecords finished;
  for (std::size_t i = 0; i <= FinishedRecords::most_kept; ++i) finished.put({});
  auto taken = finished.take();
  ASSERT_GT(taken.capacity(), FinishedRecords::most_kept);
  static_cast<void>(finished.take(std::move(taken)));
  EXPECT_EQ(finished.take().capacity(), 0U);
}

TEST(FinishedRecords, MoreThanMostAreDropped) {
  FinishedRecords finished;
  for (std::size_t i = 0; i < FinishedRecords::most; ++i) ASSERT_TRUE(finished.put({}));
  EXPECT_FALSE(finished.put(with_id("too many")));
  EXPECT_EQ(finished.take().size(), FinishedRecords::most);
}

}  // namespace
}  // namespace weir::metrics::record

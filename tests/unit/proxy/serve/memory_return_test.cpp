#include "proxy/serve/memory_return.hpp"

#include <gtest/gtest.h>

namespace weir::proxy::serve {
namespace {

constexpr std::size_t mebibyte = 1024 * 1024;
constexpr auto least = MemoryReturn::least;

metrics::Moment at(int tenths) {
  return metrics::Moment(std::chrono::hours(1)) + tenths * std::chrono::milliseconds(100);
}

TEST(MemoryReturn, IsDueOnceASecondAfterABurst) {
  MemoryReturn memory;
  EXPECT_FALSE(memory.is_due(0, at(0)));
  EXPECT_FALSE(memory.is_due(24 * mebibyte, at(1)));
  for (int i = 2; i < 12; ++i) EXPECT_FALSE(memory.is_due(0, at(i))) << i;
  EXPECT_TRUE(memory.is_due(0, at(12)));
  for (int i = 13; i < 100; ++i) EXPECT_FALSE(memory.is_due(0, at(i))) << "it is done once";
}

TEST(MemoryReturn, WaitsForTheEndOfBurstsThatFollowEachOther) {
  MemoryReturn memory;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(memory.is_due(i % 5 == 0 ? 24 * mebibyte : 0, at(i))) << i;
}

TEST(MemoryReturn, LeavesALittleToTheAllocator) {
  for (const bool enough : {false, true}) {
    MemoryReturn memory;
    memory.is_due(least - (enough ? 0 : 1), at(0));
    memory.is_due(0, at(1));
    EXPECT_EQ(memory.is_due(0, at(50)), enough);
  }
}

TEST(MemoryReturn, FollowsAFallInSteps) {
  MemoryReturn memory;
  memory.is_due(100 * mebibyte, at(0));
  memory.is_due(50 * mebibyte, at(1));
  EXPECT_TRUE(memory.is_due(50 * mebibyte, at(11)));
  memory.is_due(0, at(12));
  EXPECT_TRUE(memory.is_due(0, at(22)));
}

}  // namespace
}  // namespace weir::proxy::serve

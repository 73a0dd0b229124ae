// How far a drain is, in words.
#include "proxy/serve/drain.hpp"

#include <gtest/gtest.h>

namespace weir::proxy::serve {
namespace {

TEST(DrainProgress, SaysHowManyAreLeftAndHowOldTheyAre) {
  EXPECT_EQ(drain_progress({12, 8, std::chrono::seconds(34)}),
            "12 connections are left, 8 requests on them, the oldest for 34 s");
  EXPECT_EQ(drain_progress({1, 1, std::chrono::seconds(3)}),
            "1 connection is left, 1 request on it, the oldest for 3 s");
  EXPECT_EQ(drain_progress({2, 0, {}}), "2 connections are left, 0 requests on them");
}

}  // namespace
}  // namespace weir::proxy::serve

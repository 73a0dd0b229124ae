#include "proxy/control/bypass_api.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/proxy/said.hpp"

namespace weir::proxy::control {
namespace {

TEST(BypassApi, SwitchesItAndSaysItOnceLoudly) {
  Said said;
  std::atomic<bool> bypass{false};
  EXPECT_EQ(bypass_answer(bypass, true).body, "{\"bypass\":true,\"changed\":true}\n");
  EXPECT_TRUE(bypass);
  EXPECT_THAT(said.take(), testing::AllOf(testing::HasSubstr("warning"), testing::HasSubstr("BYPASS is on")));
  EXPECT_EQ(bypass_answer(bypass, true).body, "{\"bypass\":true,\"changed\":false}\n");
  EXPECT_EQ(said.take(), "");
  EXPECT_EQ(bypass_answer(bypass, false).body, "{\"bypass\":false,\"changed\":true}\n");
  EXPECT_FALSE(bypass);
  EXPECT_THAT(said.take(), testing::HasSubstr("bypass is off"));
}

}  // namespace
}  // namespace weir::proxy::control

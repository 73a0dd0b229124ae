#include "proxy/live/instance_name.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace weir::proxy::live {
namespace {

using std::chrono::seconds;

TEST(InstanceName, IsAnotherWeirsUntilThatEnds) {
  const auto name = "test-" + std::to_string(::getpid());
  const metrics::Moment begin{};
  InstanceName own;
  {
    InstanceName first;
    EXPECT_FALSE(first.tick(name, begin));
    EXPECT_EQ(own.tick(name, begin), 0.0);
    EXPECT_EQ(own.tick(name, begin + seconds(5)), 5.0);
    EXPECT_EQ(own.tick(name, begin + seconds(601)), 601.0);
    EXPECT_FALSE(first.tick(name, begin + seconds(601)));
    EXPECT_FALSE(own.tick(name + "-b", begin + seconds(602))) << "a reload gave it another name";
    EXPECT_EQ(own.tick(name, begin + seconds(603)), 0.0);
  }
  EXPECT_EQ(own.tick(name, begin + seconds(604)), 1.0) << "it has not looked yet";
  EXPECT_FALSE(own.tick(name, begin + seconds(614)));
}

TEST(InstanceName, MayBeLong) {
  const auto name = "test-" + std::to_string(::getpid()) + std::string(200, 'x');
  InstanceName first, second;
  EXPECT_FALSE(first.tick(name, {}));
  EXPECT_TRUE(second.tick(name, {}));
}

}  // namespace
}  // namespace weir::proxy::live

#include <gtest/gtest.h>

#include <string>

#include "metrics/compare/samples/sample.hpp"

namespace weir::metrics::compare::samples {
namespace {

TEST(Names, OfPeersAreBoundedAndLeaveRoomForWeirsOwn) {
  Names names;
  const auto known = names.of_peer("m");
  for (std::size_t i = 1; i < Names::most_from_peers; ++i)
    EXPECT_NE(names.text(names.of_peer("model " + std::to_string(i))), "(other)") << i;
  EXPECT_EQ(names.text(names.of_peer("one more")), "(other)");
  EXPECT_EQ(names.of_peer("yet another"), names.of_peer("one more"));
  EXPECT_EQ(names.of_peer("m"), known);
  EXPECT_EQ(names.text(names.of("gpu9")), "gpu9") << "a replica that a reload adds has its name";
  Names copy(names);
  EXPECT_EQ(copy.text(known), "m");
  EXPECT_EQ(copy.text(copy.of_peer("one more")), "(other)") << "a copy has the same bound";
}

}  // namespace
}  // namespace weir::metrics::compare::samples

#include "proxy/fleet/drains.hpp"

#include <gtest/gtest.h>

namespace weir::proxy::fleet {
namespace {

const Drains::Who fixed{"a", ""}, member{"gpu", "10.0.0.2"};

TEST(Drains, AMemberIsKnownByItsAddressAndAnyOtherReplicaByItsName) {
  config::Replica one;
  one.name = "a-7";
  one.url.host = "10.0.0.2";
  EXPECT_EQ(Drains::who(one), Drains::Who("a-7", ""));
  one.expand = true;
  EXPECT_EQ(Drains::who(one), Drains::Who("a", "10.0.0.2"));
  one.name = "a-7-12";
  EXPECT_EQ(Drains::who(one), Drains::Who("a-7", "10.0.0.2"));
}

TEST(Drains, TellOnceThatNothingIsLeft) {
  Drains drains;
  EXPECT_FALSE(drains.note_over(fixed)) << "it does not drain";
  drains.begin(fixed);
  EXPECT_TRUE(drains.note_over(fixed));
  drains.begin(fixed);
  EXPECT_FALSE(drains.note_over(fixed));
  drains.end(fixed);
  EXPECT_TRUE(drains.empty());
}

TEST(Drains, OfAMemberOutliveItsAbsenceForADayAndOthersTheirsForNoTime) {
  const auto begin = metrics::Moment() + std::chrono::hours(100);
  const std::set<Drains::Who> nobody, both{fixed, member};
  const std::set<std::string> gpu{"gpu"};
  Drains drains;
  drains.begin(fixed);
  drains.begin(member);
  drains.forget(both, gpu, begin);
  EXPECT_TRUE(drains.has(fixed) && drains.has(member));
  drains.forget(nobody, gpu, begin);
  EXPECT_FALSE(drains.has(fixed));
  drains.forget(nobody, gpu, begin + Drains::remembered - std::chrono::seconds(1));
  EXPECT_TRUE(drains.has(member));
  drains.forget(both, gpu, begin + Drains::remembered);
  EXPECT_TRUE(drains.has(member)) << "it is back in time";
  drains.forget(nobody, gpu, begin + 2 * Drains::remembered);
  EXPECT_TRUE(drains.has(member)) << "each absence has a day";
  drains.forget(nobody, gpu, begin + 3 * Drains::remembered);
  EXPECT_TRUE(drains.empty());
  drains.begin(member);
  drains.forget(nobody, {}, begin);
  EXPECT_TRUE(drains.empty()) << "the settings no longer have its name";
}

}  // namespace
}  // namespace weir::proxy::fleet

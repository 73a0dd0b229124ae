#include "proxy/fleet/page_complaints.hpp"

#include <gtest/gtest.h>

namespace weir::proxy::fleet {
namespace {

using std::chrono::minutes;

constexpr PageComplaints::Moment at(minutes since) { return PageComplaints::Moment(since); }

TEST(PageComplaints, AreSaidOnceAnHourForEachReason) {
  PageComplaints complaints;
  EXPECT_TRUE(complaints.due("it answers 500", true, at(minutes(0))));
  EXPECT_FALSE(complaints.due("it answers 500", true, at(minutes(59))));
  EXPECT_TRUE(complaints.due("it took longer than 2 s", true, at(minutes(30)))) << "the reason has changed";
  EXPECT_FALSE(complaints.due("it answers 500", true, at(minutes(31)))) << "nor is it said at every change";
  EXPECT_TRUE(complaints.due("it answers 500", true, at(minutes(60))));
}

TEST(PageComplaints, OfAReplicaThatIsNotUpAreNotSaidAndHideNothing) {
  PageComplaints complaints;
  EXPECT_FALSE(complaints.due("it answers 503", false, at(minutes(0)))) << "it starts anew";
  EXPECT_TRUE(complaints.due("it answers 503", true, at(minutes(1))));
  EXPECT_FALSE(complaints.due("", true, at(minutes(2)))) << "the prober tells that nobody can connect";
}

TEST(PageComplaints, AreBoundedWhateverAnEngineAnswers) {
  PageComplaints complaints;
  std::size_t said = 0;
  for (int status = 500; status < 600; ++status)
    said += complaints.due("it answers " + std::to_string(status), true, at(minutes(1)));
  EXPECT_EQ(said, PageComplaints::most_reasons);
  complaints.forget();
  EXPECT_TRUE(complaints.due("it answers 500", true, at(minutes(2))));
}

}  // namespace
}  // namespace weir::proxy::fleet

// The minutes in which two replicas of one configuration ran side by side are remembered.
#include "proxy/control/couple_watch.hpp"

#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include "tests/unit/proxy/control/mirrored_history.hpp"

namespace weir::proxy::control {
namespace {

using std::chrono::seconds;

class Watch : public MirroredHistory {
 protected:
  Watch() : MirroredHistory(0) {}

  /// Lets two replicas have a request each every 20 s, for so long.
  void run_for(int minutes) {
    for (const int end = at_s + 60 * minutes; at_s < end; at_s += 20) {
      for (const char* const replica : {"gpu0", "gpu1"}) {
        auto record = primary_of(at_s);
        record.id[0] = replica[3];
        record.replica = replica;
        record.shadows = 0;
        finished.put(std::move(record));
      }
      history.take(finished, start + seconds(at_s + 1));
      watch.tick(start + seconds(at_s + 1));
      while (slow.under_way() > 0) context.run_one();
    }
  }

  /// A minute with two quick requests and one that takes two minutes, on either replica. The slow one differs.
  void run_minute() {
    for (int i = 0; i < 3; ++i, at_s += 20) {
      for (const char* const replica : {"gpu0", "gpu1"}) {
        auto record = primary_of(at_s);
        record.id[0] = replica[3];
        record.replica = replica;
        record.shadows = 0;
        if (i == 2) {
          if (replica == std::string("gpu1")) record.answer.first_token = record.received + seconds(20);
          unfinished.push_back(std::move(record));
        } else {
          finished.put(std::move(record));
        }
      }
    }
    if (unfinished.size() > 4) {
      for (int i = 0; i < 2; ++i) finished.put(std::move(unfinished[static_cast<std::size_t>(i)]));
      unfinished.erase(unfinished.begin(), unfinished.begin() + 2);
    }
    history.take(finished, start + seconds(at_s - 15));
    watch.tick(start + seconds(at_s - 15));
    while (slow.under_way() > 0) context.run_one();
  }
  std::vector<double> minutes() const {
    const auto noise = history.noise();
    if (noise.empty()) return {};
    return noise[0].minutes[static_cast<std::size_t>(metrics::compare::statistics::Figure::ttft)][0];
  }

  std::vector<metrics::record::RequestRecord> unfinished;
  int at_s = 0;
  boost::asio::io_context context;
  const boost::asio::executor_work_guard<boost::asio::io_context::executor_type> stays{context.get_executor()};
  SlowAnswers slow{context};
  History history{log, 100};  ///< Those of a few minutes.
  CoupleWatch watch{history, slow};
};

TEST_F(Watch, RemembersEightHoursOfWhichTheRequestsAreGone) {
  run_for(8 * 60 - 5);
  EXPECT_TRUE(history.noise().empty());
  run_for(10);
  ASSERT_EQ(history.noise().size(), 1u);
  const auto noise = history.noise().front();
  EXPECT_EQ(noise.source, "gpu1 against gpu0");
  EXPECT_FALSE(noise.paired);
  EXPECT_NEAR(noise.hours(metrics::compare::statistics::Figure::ttft), 8, 0.2);
  EXPECT_EQ(noise.variance(metrics::compare::statistics::Figure::ttft), 0) << "both answered alike";
  EXPECT_EQ(history.samples().size(), 100u);
}

/// Of the last minutes before a pause only what ended last is looked at again, and that is no picture of them.
TEST_F(Watch, KeepsAMinuteAsItWasWhenItsRequestsWereThere) {
  for (int i = 0; i < 9 * 60; ++i) run_minute();
  const auto before = minutes();
  for (int i = 0; i < 6; ++i) {
    at_s += 60;
    watch.tick(start + seconds(at_s + 1));
    while (slow.under_way() > 0) context.run_one();
  }
  const auto after = minutes();
  ASSERT_GE(after.size(), before.size());
  // Ten times the usual value is the most that counts, and the usual one is that of the minutes that are held.
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_NEAR(after[i], before[i], 0.02) << "nothing of a known minute has come since: " << i;
}

TEST_F(Watch, LooksOnceAMinuteAndNotAtNothing) {
  watch.tick(start);
  EXPECT_EQ(slow.under_way(), 0u);
  run_for(2);  // It looked after 1 and 61 s.
  watch.tick(start + seconds(120));
  EXPECT_EQ(slow.under_way(), 0u);
  for (const int at : {121, 122, 200}) {
    watch.tick(start + seconds(at));
    EXPECT_EQ(slow.under_way(), 1u) << "none beside the one that is under way";
  }
  while (slow.under_way() > 0) context.run_one();
}

}  // namespace
}  // namespace weir::proxy::control

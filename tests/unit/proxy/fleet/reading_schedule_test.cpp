// When an engine is read: often enough to be of use, and never so often that the reading is its work.
#include "proxy/fleet/reading_schedule.hpp"

#include <gtest/gtest.h>

#include "proxy/fleet/engine_figures.hpp"

namespace weir::proxy::fleet {
namespace {

using namespace std::chrono_literals;
using End = ReadingSchedule::End;

constexpr metrics::Moment at_first{1h};

TEST(ReadingSchedule, PausesFollowTheIntervalUnlessTheEngineIsSlowOrHasNoPage) {
  const struct {
    End end;
    metrics::Moment::duration took, pause;
  } cases[]{
      {End::came, 10ms, 5s},     {End::came, 250ms, 5s},   {End::came, 251ms, 5020ms},
      {End::came, 2s, 40s},      {End::failed, 1ms, 5s},   {End::failed, 5s, 100s},
      {End::missing, 1ms, 5min}, {End::missing, 5s, 5min}, {End::missing, 20s, 400s},
  };
  for (const auto& [end, took, pause] : cases) {
    ReadingSchedule schedule;
    const auto good_until = schedule.ended(end, took, 5s, at_first);
    EXPECT_FALSE(schedule.due(at_first + pause - 1ns)) << pause.count();
    EXPECT_TRUE(schedule.due(at_first + pause)) << pause.count();
    EXPECT_EQ(good_until, at_first + 2 * pause) << "two intervals, in use as they are";
  }
}

TEST(ReadingSchedule, WhatTheEngineIsIsAskedAtOnceAndThenRarely) {
  ReadingSchedule schedule;
  EXPECT_TRUE(schedule.due(at_first) && schedule.identity_due(at_first));
  schedule.identified(at_first);
  schedule.ended(End::came, 1ms, 5s, at_first);
  EXPECT_FALSE(schedule.identity_due(at_first + 5min - 1ns));
  EXPECT_TRUE(schedule.identity_due(at_first + 5min));
}

TEST(ReadingSchedule, AnEngineThatComesBackIsReadAtOnce) {
  ReadingSchedule schedule;
  schedule.identified(at_first);
  schedule.ended(End::missing, 1ms, 5s, at_first);
  schedule.came_back();
  EXPECT_TRUE(schedule.due(at_first));
  EXPECT_TRUE(schedule.identity_due(at_first));
}

TEST(ReadingSchedule, WhatIsAskedForDuringAReadingFollowsIt) {
  ReadingSchedule schedule;
  schedule.began();
  schedule.look_at(at_first);
  schedule.ended(End::failed, 5s, 5s, at_first + 2s);
  EXPECT_TRUE(schedule.due(at_first + 2s)) << "the pause of 100 s was not for this one";
  schedule.began();
  schedule.ended(End::came, 1ms, 5s, at_first + 3s);
  EXPECT_FALSE(schedule.due(at_first + 8s - 1ns));
  schedule.began();
  schedule.came_back();
  schedule.ended(End::failed, 5s, 5s, at_first + 9s);
  EXPECT_TRUE(schedule.due(at_first + 9s)) << "another engine may be there by now";
}

TEST(EngineFigures, ALoadIsGoodForTwoIntervalsAndUnknownAfterThem) {
  EngineFigures figures;
  EXPECT_EQ(figures.load_at(at_first), nullptr);
  figures.load.emplace();
  figures.load->good_until = at_first + 10s;
  EXPECT_NE(figures.load_at(at_first + 10s), nullptr);
  EXPECT_EQ(figures.load_at(at_first + 10s + 1ns), nullptr);
}

}  // namespace
}  // namespace weir::proxy::fleet

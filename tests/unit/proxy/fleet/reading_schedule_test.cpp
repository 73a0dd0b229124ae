// When an engine is read: often enough to be of use, and never so often that the reading is its work.
#include "proxy/fleet/reading_schedule.hpp"

#include <gtest/gtest.h>

#include "proxy/fleet/engine_figures.hpp"

namespace weir::proxy::fleet {
namespace {

using namespace std::chrono_literals;
using End = ReadingSchedule::End;

constexpr metrics::Moment start{1h};

TEST(ReadingSchedule, TheFirstReadingIsAtOnceAndAsksWhatTheEngineIs) {
  const ReadingSchedule schedule;
  EXPECT_TRUE(schedule.due(start));
  EXPECT_TRUE(schedule.identity_due(start));
}

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
    const auto good_until = schedule.ended(end, took, 5s, start);
    EXPECT_FALSE(schedule.due(start + pause - 1ns)) << pause.count();
    EXPECT_TRUE(schedule.due(start + pause)) << pause.count();
    EXPECT_EQ(good_until, start + 2 * pause) << "two intervals, in use as they are";
  }
}

TEST(ReadingSchedule, WhatTheEngineIsIsAskedRarely) {
  ReadingSchedule schedule;
  schedule.identified(start);
  schedule.ended(End::came, 1ms, 5s, start);
  EXPECT_FALSE(schedule.identity_due(start + 5min - 1ns));
  EXPECT_TRUE(schedule.identity_due(start + 5min));
}

TEST(ReadingSchedule, AnEngineThatComesBackIsReadAtOnce) {
  ReadingSchedule schedule;
  schedule.identified(start);
  schedule.ended(End::missing, 1ms, 5s, start);
  schedule.came_back();
  EXPECT_TRUE(schedule.due(start));
  EXPECT_TRUE(schedule.identity_due(start));
}

TEST(EngineFigures, ALoadIsGoodForTwoIntervalsAndUnknownAfterThem) {
  EngineFigures figures;
  EXPECT_EQ(figures.load_at(start), nullptr);
  figures.load.emplace();
  figures.load->good_until = start + 10s;
  EXPECT_NE(figures.load_at(start + 10s), nullptr);
  EXPECT_EQ(figures.load_at(start + 10s + 1ns), nullptr);
}

}  // namespace
}  // namespace weir::proxy::fleet

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
    const auto good_until = schedule.page_ended(end, took, 5s, at_first);
    EXPECT_FALSE(schedule.page_due(at_first + pause - 1ns)) << pause.count();
    EXPECT_TRUE(schedule.page_due(at_first + pause)) << pause.count();
    EXPECT_EQ(good_until, at_first + 2 * pause) << "two intervals, in use as they are";
  }
}

TEST(ReadingSchedule, WhatTheEngineIsIsAskedAtOnceAndThenRarely) {
  ReadingSchedule schedule;
  EXPECT_TRUE(schedule.page_due(at_first) && schedule.identity_due(at_first));
  schedule.identified(at_first);
  schedule.page_ended(End::came, 1ms, 5s, at_first);
  EXPECT_FALSE(schedule.identity_due(at_first + 5min - 1ns));
  EXPECT_TRUE(schedule.identity_due(at_first + 5min));
}

TEST(ReadingSchedule, AnEngineThatComesBackIsReadAtOnce) {
  ReadingSchedule schedule;
  schedule.identified(at_first);
  schedule.page_ended(End::missing, 1ms, 5s, at_first);
  schedule.came_back();
  EXPECT_TRUE(schedule.page_due(at_first));
  EXPECT_TRUE(schedule.identity_due(at_first));
}

TEST(ReadingSchedule, WhatIsAskedForDuringAReadingFollowsIt) {
  ReadingSchedule schedule;
  schedule.began();
  schedule.look_at(at_first);
  schedule.page_ended(End::failed, 5s, 5s, at_first + 2s);
  EXPECT_TRUE(schedule.page_due(at_first + 2s)) << "the pause of 100 s was not for this one";
  schedule.began();
  schedule.page_ended(End::came, 1ms, 5s, at_first + 3s);
  EXPECT_FALSE(schedule.page_due(at_first + 8s - 1ns));
  schedule.began();
  schedule.came_back();
  schedule.page_ended(End::failed, 5s, 5s, at_first + 9s);
  EXPECT_TRUE(schedule.page_due(at_first + 9s)) << "another engine may be there by now";
}

TEST(EngineFigures, ALoadIsGoodForTwoIntervalsAndUnknownAfterThem) {
  EngineFigures figures;
  EXPECT_EQ(figures.load_at(at_first), nullptr);
  figures.load.emplace();
  figures.load->good_until = at_first + 10s;
  EXPECT_NE(figures.load_at(at_first + 10s), nullptr);
  EXPECT_EQ(figures.load_at(at_first + 10s + 1ns), nullptr);
}

TEST(ReadingSchedule, TheListOfModelsIsAskedForEveryFiveSecondsAndHoldsUpNoWitness) {
  ReadingSchedule schedule;
  EXPECT_TRUE(schedule.models_due(at_first));
  schedule.models_ended(at_first);
  EXPECT_FALSE(schedule.models_due(at_first + 5s - 1ns));
  EXPECT_TRUE(schedule.models_due(at_first + 5s));
  schedule.look_at(at_first + 5s);
  EXPECT_TRUE(schedule.page_due(at_first + 5s));
  EXPECT_FALSE(schedule.models_due(at_first + 5s)) << "a replica that hangs would take its time";
  EXPECT_TRUE(schedule.models_due(at_first + 6s));
  schedule.models_ended(at_first + 6s);
  schedule.came_back();
  EXPECT_TRUE(schedule.models_due(at_first + 6s));
}

constexpr metrics::Moment at(std::chrono::minutes since) { return metrics::Moment(since); }

TEST(PageComplaints, AreSaidOnceAnHourForEachReason) {
  PageComplaints complaints;
  EXPECT_TRUE(complaints.due("it answers 500", true, at(0min)));
  EXPECT_FALSE(complaints.due("it answers 500", true, at(59min)));
  EXPECT_TRUE(complaints.due("it took longer than 2 s", true, at(30min))) << "the reason has changed";
  EXPECT_FALSE(complaints.due("it answers 500", true, at(31min))) << "nor is it said at every change";
  EXPECT_TRUE(complaints.due("it answers 500", true, at(60min)));
}

TEST(PageComplaints, OfAReplicaThatIsNotUpAreNotSaidAndHideNothing) {
  PageComplaints complaints;
  EXPECT_FALSE(complaints.due("it answers 503", false, at(0min))) << "it starts anew";
  EXPECT_TRUE(complaints.due("it answers 503", true, at(1min)));
  EXPECT_FALSE(complaints.due("", true, at(2min))) << "the probe tells that nobody can connect";
}

TEST(PageComplaints, AreBoundedWhateverAnEngineAnswers) {
  PageComplaints complaints;
  std::size_t said = 0;
  for (int status = 500; status < 600; ++status)
    said += complaints.due("it answers " + std::to_string(status), true, at(1min));
  EXPECT_EQ(said, PageComplaints::most_reasons);
  complaints.forget();
  EXPECT_TRUE(complaints.due("it answers 500", true, at(2min)));
}

}  // namespace
}  // namespace weir::proxy::fleet

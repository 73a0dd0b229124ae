#include "lab/experiment/run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <stdexcept>

#include "tests/unit/lab/load/made_results.hpp"

namespace weir::lab::experiment {
namespace {

using testing::ElementsAre;

/// A table of three loads at "1", "2" and "3", which keeps what it takes.
class Loads final : public Table {
 public:
  std::vector<Point> points() const override {
    std::vector<Point> points;
    for (const char* const url : {"1", "2", "3"}) {
      Point& point = points.emplace_back();
      point.begins = point.load.url = url;
    }
    points[1].warm_up = points[1].load;
    points[1].warm_up->url = "warm-up";
    return points;
  }
  void take(const Point& point, Ran ran) override {
    took.push_back(point.load.url + (ran.cut ? " cut" : ran.problem) + ' ' + std::to_string(ran.results.size()));
    last = std::move(ran);
  }
  Report report(bool) const override { return {}; }

  std::vector<std::string> took;
  Ran last;
};

struct Went {
  bool whole = false;
  std::vector<std::string> loads, begun, results;
  Loads table;
};

/// Runs the three, with `during` in each load.
Went run_with(const std::function<void(const std::string& url, load::Measured&)>& during) {
  Went told;
  const load::Interrupt interrupt;
  told.whole = run(
      told.table, interrupt, [&](const Point& point) { told.begun.push_back(point.begins); },
      [&](const Point& point, const load::Result&) { told.results.push_back(point.load.url); },
      [&](const load::LoadSettings& settings, const load::Interrupt&, const load::OnResult& on_result) {
        told.loads.push_back(settings.url);
        load::Measured measured;
        measured.report.add(load::made_result({}));
        if (on_result) on_result(load::made_result({}));
        during(settings.url, measured);
        return measured;
      });
  return told;
}

TEST(Run, RunsTheLoadsInTheirOrderAndTellsNoWarmUp) {
  const auto told = run_with([](const std::string& url, load::Measured& measured) {
    if (url == "3") measured.own.cpu_share = 0.99;
  });
  EXPECT_TRUE(told.whole);
  EXPECT_THAT(told.loads, ElementsAre("1", "warm-up", "2", "3"));
  EXPECT_THAT(told.begun, ElementsAre("1", "2", "3"));
  EXPECT_THAT(told.results, ElementsAre("1", "2", "3"));
  EXPECT_THAT(told.table.took, ElementsAre("1 1", "2 1", "3 1"));
  EXPECT_EQ(told.table.last.all.ok(), 1u);
  EXPECT_THAT(told.table.last.own_delay.value_or(""), testing::HasSubstr("computed for 99 %"));
  EXPECT_GE(told.table.last.ended, told.table.last.begun);
  EXPECT_GT(told.table.last.begun, 0);
}

TEST(Run, EndsWithTheLoadThatItsUserEnded) {
  for (const bool short_load : {false, true}) {  // A short load ends before it looks.
    const auto told = run_with([&](const std::string& url, load::Measured& measured) {
      if (url != "2") return;
      short_load ? void(std::raise(SIGINT)) : void(measured.interrupted = true);
    });
    EXPECT_FALSE(told.whole);
    EXPECT_THAT(told.loads, ElementsAre("1", "warm-up", "2"));
    EXPECT_THAT(told.table.took, ElementsAre("1 1", short_load ? "2 1" : "2 cut 1"));
  }
  const auto warming = run_with([](const std::string& url, load::Measured& m) { m.interrupted = url == "warm-up"; });
  EXPECT_THAT(warming.loads, ElementsAre("1", "warm-up"));
  EXPECT_THAT(warming.table.took, ElementsAre("1 1", "2 cut 0"));
  EXPECT_FALSE(run_with([](const std::string& url, load::Measured&) {
                 if (url == "3") std::raise(SIGTERM);
               }).whole)
      << "be it in the last";
}

TEST(Run, GoesOnBehindALoadThatCouldNotBeSent) {
  const auto told = run_with([](const std::string& url, load::Measured&) {
    if (url == "warm-up") throw std::runtime_error(" cannot resolve");
  });
  EXPECT_TRUE(told.whole);
  EXPECT_THAT(told.loads, ElementsAre("1", "warm-up", "3")) << "nothing is sent behind a warm-up that could not be";
  EXPECT_THAT(told.table.took, ElementsAre("1 1", "2 cannot resolve 0", "3 1"));
  EXPECT_THROW(run_with([](const std::string&, load::Measured&) { throw std::invalid_argument("a URL"); }),
               std::invalid_argument);
}

}  // namespace
}  // namespace weir::lab::experiment

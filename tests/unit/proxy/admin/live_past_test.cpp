// A running comparison whose first requests are no longer held.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>

#include "proxy/admin/comparison_api.hpp"
#include "proxy/shadows/live_comparison.hpp"
#include "tests/unit/proxy/shadows/mirrored_history.hpp"

namespace weir::proxy::admin {
namespace {

using shadows::LiveComparison;
using shadows::MirroredHistory;

namespace json = boost::json;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::Not;

/// Holds the last 1000 records, which are those of eight minutes; `whole` holds all.
class LivePast : public MirroredHistory {
 protected:
  LivePast() : MirroredHistory(0, 1000) { set_shadows({candidate}); }

  /// A request a second until then, with a look every 15 s.
  void run_to(int second) {
    for (; now < second; ++now) {
      auto primary = primary_of(now);
      auto shadow = shadow_of(primary, "candidate", "cand0", now);
      if (now % 100 == 0) shadow.outcome = metrics::Outcome::upstream_reset;
      for (History* const one : {&history, &whole}) {
        take(*one, primary);
        take(*one, shadow);
      }
      if (now % 15 == 0) look();
    }
  }
  void take(History& into, metrics::record::RequestRecord record) {
    finished.put(std::move(record));
    into.take(finished, start + seconds(now + 1));
  }
  void look() {
    live.tick(*snapshot, start + seconds(now + 1));
    while (slow.under_way() > 0) context.run_one();
  }
  json::object report_of(const History& of, std::string_view query = "slo=fast") const {
    return json::parse(comparison(query, of, *snapshot)().body).as_object();
  }
  static std::vector<std::string> notes(const json::object& report) {
    return json::value_to<std::vector<std::string>>(report.at("notes"));
  }
  Judged judged(const History& of) const { return shadows::gate_of_shadow(*candidate, *snapshot, of)(); }

  const std::shared_ptr<fleet::ShadowRuntime> candidate = twin("candidate", "cand0");
  History whole{log, History::usual_most, {}, start};
  int now = 0;
  boost::asio::io_context context;
  const boost::asio::executor_work_guard<boost::asio::io_context::executor_type> stays{context.get_executor()};
  SlowAnswers slow{context};
  LiveComparison live{history, slow};
};

TEST_F(LivePast, ApiGateAndGaugesSayWhatAllRequestsAtOnceWouldSay) {
  for (const int second : {1500, 2300, 3605}) {
    run_to(second);
    look();
    const auto some = report_of(history), all = report_of(whole);
    EXPECT_THAT(notes(some), Contains("held"));
    EXPECT_THAT(notes(all), Not(Contains("held")));
    EXPECT_EQ(some.at("window").at("from"), all.at("window").at("from"));
    EXPECT_EQ(some.at("window").at("to"), all.at("window").at("to"));
    EXPECT_TRUE(some.at("held").is_object());
    EXPECT_TRUE(all.at("held").is_null());
    EXPECT_EQ(some.at("lost"), 0);
    EXPECT_THAT(notes(some), Not(Contains("lost")));
    EXPECT_EQ(some.at("pairs"), all.at("pairs"));
    EXPECT_EQ(some.at("faults"), all.at("faults"));
    ASSERT_EQ(some.at("verdicts").as_array().size(), all.at("verdicts").as_array().size());
    for (std::size_t i = 0; i < all.at("verdicts").as_array().size(); ++i) {
      const auto &x = some.at("verdicts").at(i), &y = all.at("verdicts").at(i);
      for (const char* const key : {"metric", "verdict", "count", "withheld"}) EXPECT_EQ(x.at(key), y.at(key)) << key;
      ASSERT_EQ(x.at("interval").is_null(), y.at("interval").is_null());
      if (y.at("interval").is_null()) continue;
      EXPECT_NEAR(x.at("interval").at(0).to_number<double>(), y.at("interval").at(0).to_number<double>(), 1e-6);
    }
    const auto gate = judged(history), gate_of_all = judged(whole);
    EXPECT_EQ(gate.gate.word, gate_of_all.gate.word);
    EXPECT_EQ(gate.gate.word, metrics::compare::comparison::Gate::worse);
    EXPECT_EQ(gate.comparison.pairs, gate_of_all.comparison.pairs);
    EXPECT_GT(gate.comparison.pairs, 800u);
    const auto gauges = live.gauges(*snapshot);
    for (const auto& effect : gauges.at(0).effects) {
      if (effect.metric != "ttft") continue;
      ASSERT_TRUE(effect.interval);
      EXPECT_NEAR(effect.interval->first, all.at("verdicts").at(0).at("interval").at(0).to_number<double>(), 1e-3);
    }
  }
}

TEST_F(LivePast, WhoAsksOfAWindowOrOfSomeRequestsIsToldOfTheSamplesAlone) {
  run_to(2000);
  for (const char* const query : {"window=5m&warm_up=0s", "for=5m", "prompt_tokens=1-1000", "warm_up=0s"})
    EXPECT_THAT(notes(report_of(history, query)), Not(Contains("held"))) << query;
  EXPECT_THAT(notes(report_of(history, "by=replica")), Contains("held"));
}

TEST_F(LivePast, BeginsAnewWithAShadow) {
  run_to(2000);
  ASSERT_EQ(history.tables().size(), 1u);
  history.begin_anew("other", start + std::chrono::seconds(now));
  EXPECT_EQ(history.tables().size(), 1u);
  history.begin_anew("candidate", start + std::chrono::seconds(now));
  EXPECT_TRUE(history.tables().empty());
  EXPECT_EQ(comparison("", history, *snapshot)().status, 400u) << "no request of the shadow counts any more";
  candidate->state->began = start + seconds(now);
  run_to(3400);
  EXPECT_EQ(report_of(history).at("pairs").to_number<int>(), 800);
}

TEST_F(LivePast, OfALookUnderWayWhenAShadowBeginsAnewNothingIsKept) {
  run_to(2000);
  live.tick(*snapshot, start + seconds(now + 100));
  EXPECT_EQ(slow.under_way(), 1u);
  history.begin_anew("candidate", start + std::chrono::seconds(now));
  while (slow.under_way() > 0) context.run_one();
  EXPECT_TRUE(history.tables().empty());
}

TEST_F(LivePast, WhatLeavesIsKeptWhileTheShadowIsOff) {
  run_to(1500);
  candidate->state->on = false;
  for (; now < 3000; ++now) {
    auto primary = primary_of(now);
    primary.shadows = 0;
    for (History* const one : {&history, &whole}) take(*one, primary);
    if (now % 15 == 0) look();
  }
  EXPECT_TRUE(live.gauges(*snapshot).empty());
  const auto some = judged(history), all = judged(whole);
  EXPECT_EQ(some.comparison.pairs, 900u);
  EXPECT_EQ(some.comparison.pairs, all.comparison.pairs);
  EXPECT_EQ(some.gate.word, all.gate.word);
  set_shadows({});
  look();
  EXPECT_TRUE(history.tables().empty()) << "it has left the settings";
}

/// The ring spans less than three minutes meanwhile, so that the longest answers would never count.
TEST_F(LivePast, OutlastsABurst) {
  run_to(2000);
  const auto began = *history.tables().at(0)->from_us;
  const auto before = judged(history);
  ASSERT_EQ(before.gate.word, metrics::compare::comparison::Gate::worse);
  for (int i = 0; i < 2400; ++i) {
    auto primary = primary_of(now);
    primary.id.replace(10, 4, "beef");
    primary.id.replace(14, 4, std::to_string(1000 + i));
    take(history, primary);
    take(history, shadow_of(primary, "candidate", "cand0", now));
    if (i % 40 == 39 && ++now % 15 == 0) look();
  }
  ASSERT_FALSE(history.leaving_before_us());
  EXPECT_EQ(judged(history).gate.word, metrics::compare::comparison::Gate::worse);
  run_to(3000);
  ASSERT_EQ(history.tables().size(), 1u);
  EXPECT_EQ(*history.tables().at(0)->from_us, began);
  const auto after = judged(history);
  EXPECT_GE(after.comparison.pairs, before.comparison.pairs + 900 - 500) << "less those that the burst pushed out";
  EXPECT_EQ(after.gate.word, metrics::compare::comparison::Gate::worse) << "what was shown stays shown";
  EXPECT_GT(after.comparison.lost, 1000u);
  EXPECT_EQ(after.comparison.pairs + after.comparison.warming + after.comparison.lost, 3000u - 60 + 2400)
      << "each request of the shadow is in the verdicts, came while it was cold, or is told to be lost";
  const auto said = report_of(history);
  EXPECT_EQ(said.at("lost").to_number<std::uint64_t>(), after.comparison.lost);
  EXPECT_THAT(notes(said), Contains("lost"));
  EXPECT_EQ(report_of(history, "window=5m").at("lost"), 0) << "the requests that were asked for are held";
  look();
  EXPECT_EQ(live.latest(*snapshot).at(0).lost, after.comparison.lost);
  history.begin_anew("candidate", start + std::chrono::seconds(now));
  EXPECT_TRUE(history.lost().empty());
}

/// Its findings are still asked for.
TEST_F(LivePast, OfAShadowThatIsSwitchedOffOutlastsABurst) {
  run_to(2000);
  const auto before = judged(history);
  ASSERT_EQ(before.gate.word, metrics::compare::comparison::Gate::worse);
  candidate->state->on = false;
  for (int i = 0; i < 2400; ++i) {
    auto primary = primary_of(now);
    primary.shadows = 0;
    primary.id.replace(10, 4, "beef");
    primary.id.replace(14, 4, std::to_string(1000 + i));
    take(history, primary);
    if (i % 40 == 39 && ++now % 15 == 0) look();
  }
  ASSERT_FALSE(history.leaving_before_us());
  look();
  ASSERT_EQ(history.tables().size(), 1u);
  EXPECT_EQ(judged(history).gate.word, metrics::compare::comparison::Gate::worse);
}

TEST_F(LivePast, BeginsAnewWithAnotherObjective) {
  run_to(2000);
  const auto began = *history.tables().at(0)->from_us;
  change_snapshot([](fleet::Snapshot& next) { next.settings.slos[0].name = "renamed"; });
  run_to(2100);
  EXPECT_EQ(*history.tables().at(0)->from_us, began);
  change_snapshot([](fleet::Snapshot& next) { next.settings.slos[0].ttft = config::Seconds(0.5); });
  run_to(2300);
  ASSERT_EQ(history.tables().size(), 1u);
  EXPECT_GT(*history.tables().at(0)->from_us, began);
  EXPECT_THAT(notes(report_of(history, "slo=renamed")), Contains("held"));
}

TEST_F(LivePast, EachObjectiveOfThePoolHasMinutesOfItsOwn) {
  change_snapshot([](fleet::Snapshot& next) {
    auto& slos = next.settings.slos;
    slos.push_back(slos.front());
    slos.back().ttft = config::Seconds(2);
  });
  run_to(2000);
  ASSERT_EQ(history.tables().size(), 2u);
  const auto began = *history.tables().at(0)->from_us;
  change_snapshot([](fleet::Snapshot& next) { next.settings.slos[1].ttft = config::Seconds(0.5); });
  run_to(2300);
  ASSERT_EQ(history.tables().size(), 2u);
  EXPECT_EQ(*history.tables().at(0)->from_us, began);
  EXPECT_GT(*history.tables().at(1)->from_us, began) << "what left before was not judged by it";
}

}  // namespace
}  // namespace weir::proxy::admin

// /metrics tells of shadows what was computed last.
#include "proxy/shadows/live_comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>
#include <cmath>
#include <map>

#include "proxy/admin/comparison_api.hpp"
#include "tests/unit/proxy/shadows/mirrored_history.hpp"

namespace weir::proxy::shadows {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Effect = metrics::series::ComparisonGauges::Effect;

class Live : public MirroredHistory {
 protected:
  explicit Live(int so_far = requests) : MirroredHistory(so_far) { set_shadows({candidate}); }

  /// Looks so long after the beginning, and lets what was begun come to its end. Returns whether anything was.
  bool look(seconds after = seconds(requests)) {
    live.tick(*snapshot, start + after);
    const bool begun = slow.under_way() > 0;
    while (slow.under_way() > 0) context.run_one();
    return begun;
  }
  std::map<std::string, Effect> effects(const std::string& shadow = "candidate") const {
    std::map<std::string, Effect> found;
    for (const auto& one : live.gauges(*snapshot))
      if (one.shadow == shadow)
        for (const auto& effect : one.effects) found[std::string(effect.metric)] = effect;
    return found;
  }
  std::vector<std::string> metrics_of(const std::string& shadow = "candidate") const {
    std::vector<std::string> names;
    for (const auto& [name, effect] : effects(shadow)) names.push_back(name);
    return names;
  }
  std::string state() const {
    std::string is;
    const auto gauges = live.gauges(*snapshot);
    for (const auto& [name, is_it] : gauges.at(0).states)
      if (is_it) is += name;
    return is;
  }

  const std::shared_ptr<fleet::ShadowRuntime> candidate = twin("candidate", "cand0");
  boost::asio::io_context context;
  const boost::asio::executor_work_guard<boost::asio::io_context::executor_type> stays{context.get_executor()};
  SlowAnswers slow{context};
  LiveComparison live{history, slow};
};

TEST_F(Live, SaysWhatTheApiSays) {
  ASSERT_TRUE(look());
  EXPECT_EQ(state(), "running");
  const auto report =
      boost::json::parse(admin::comparison("by=replica&a=gpu0&b=candidate&slo=fast", history, *snapshot)().body)
          .as_object();
  EXPECT_EQ(report.at("state"), "running");
  const auto found = effects();
  std::size_t compared = 0;
  for (const auto& verdict : report.at("verdicts").as_array()) {
    const auto metric = boost::json::value_to<std::string>(verdict.at("metric"));
    const auto effect = found.find(metric);
    ASSERT_EQ(effect != found.end(), !verdict.at("estimate").is_null()) << metric;
    if (effect == found.end()) continue;
    ++compared;
    const auto near = [&](double value, const boost::json::value& told) {  // The API has six digits.
      EXPECT_NEAR(value, told.to_number<double>(), 1e-6 + 1e-5 * std::abs(value)) << metric;
    };
    near(effect->second.estimate, verdict.at("estimate"));
    ASSERT_EQ(effect->second.interval.has_value(), !verdict.at("interval").is_null()) << metric;
    if (!effect->second.interval) continue;
    near(effect->second.interval->first, verdict.at("interval").at(0));
    near(effect->second.interval->second, verdict.at("interval").at(1));
  }
  EXPECT_EQ(compared, found.size());
  EXPECT_THAT(metrics_of(),
              UnorderedElementsAre("ttft", "tpot", "ttft_geomean", "tpot_geomean", "output_tokens", "stalls"));
  const auto& ttft = found.at("ttft");
  EXPECT_NEAR(ttft.estimate, 0.18, 0.03);
  EXPECT_LT(ttft.interval->first, ttft.estimate);
  EXPECT_GT(ttft.interval->second, ttft.estimate);
}

TEST_F(Live, CountsMissesOfAnObjectiveOfThePoolAlone) {
  const auto counts_misses = [&](seconds after) {
    look(after);
    return std::ranges::any_of(live.gauges(*snapshot).at(0).faults, [](const auto& one) { return one.fault == "slo"; });
  };
  EXPECT_TRUE(counts_misses(seconds(requests)));
  change_snapshot([](fleet::Snapshot& next) { next.settings.slos[0].pool = "other"; });
  EXPECT_FALSE(counts_misses(seconds(requests) + LiveComparison::every));
  EXPECT_TRUE(effects().contains("ttft"));
}

class LiveWithoutRequestsYet : public Live {
 protected:
  LiveWithoutRequestsYet() : Live(0) {}
};
TEST_F(LiveWithoutRequestsYet, FiguresOfUnlikeTokensAreNone) {
  change = [](auto& primary, auto& shadow) { shadow.answer.prompt_tokens = *primary.answer.prompt_tokens * 13 / 10; };
  for (int i = 0; i < requests; ++i) add(i);
  ASSERT_TRUE(look());
  EXPECT_THAT(metrics_of(), UnorderedElementsAre("ttft", "ttft_geomean", "stalls"));
}

TEST_F(LiveWithoutRequestsYet, SaysWhatIsWrongWithAnswersAndWhetherTheyAreTheSame) {
  const auto gauges = [&] { return live.gauges(*snapshot).at(0); };
  const auto word = [&] {
    std::string is;
    for (const auto& [name, is_it] : gauges().answers)
      if (is_it) is += name;
    return is;
  };
  EXPECT_EQ(word(), "unknown");
  EXPECT_TRUE(gauges().faults.empty());
  // What comes in half a minute counts once.
  for (int i = 0; i < requests; ++i) {
    change = [i](auto& primary, auto& shadow) {
      if (i % 100 == 0) shadow.outcome = metrics::Outcome::upstream_reset;
      if (i % 30 == 15) primary.answer.finish_reason = "length";
    };
    add(i);
  }
  look();
  std::map<std::string_view, metrics::series::ComparisonGauges::Fault> faults;
  for (const auto& fault : gauges().faults) faults[fault.fault] = fault;
  EXPECT_EQ(faults.at("failed").shadow, 15u);
  EXPECT_EQ(faults.at("failed").other, 0u);
  EXPECT_GE(faults.at("failed").evidence, 100);
  EXPECT_EQ(faults.at("length").other, 50u);
  EXPECT_EQ(faults.at("length").evidence, 1);
  EXPECT_FALSE(faults.contains("tools"));
  EXPECT_EQ(word(), "differs") << "the primary's answers end otherwise";
  candidate->state->began = metrics::Moment::max();
  EXPECT_EQ(word(), "unknown") << "switched on, it begins anew";
}

TEST_F(Live, WhatWasAnsweredBeforeTheShadowWasSwitchedOnDoesNotCount) {
  change = [](auto&, auto& shadow) { shadow.outcome = metrics::Outcome::upstream_reset; };
  for (int i = requests; i < requests + 9; ++i) add(i);
  history.begin_anew("candidate", start + std::chrono::seconds(requests + 60));
  candidate->state->began = start + seconds(requests + 60);
  change = [](auto&, auto&) {};
  for (int i = requests + 60; i < requests + 120; ++i) add(i);
  ASSERT_TRUE(look(seconds(requests + 120)));
  const auto gauges = live.gauges(*snapshot);
  EXPECT_FALSE(gauges.at(0).faults.empty());
  for (const auto& fault : gauges.at(0).faults) EXPECT_EQ(fault.shadow, 0u) << fault.fault;
}

class LiveNineMinutes : public Live {
 protected:
  LiveNineMinutes() : Live(540) {}
};
TEST_F(LiveNineMinutes, HaveNoEffectSinceTheShadowIsCold) {
  ASSERT_TRUE(look());
  EXPECT_THAT(effects(), IsEmpty());
  EXPECT_EQ(state(), "too_few");
}

class LiveFourteenMinutes : public Live {
 protected:
  LiveFourteenMinutes() : Live(840) {}
};
TEST_F(LiveFourteenMinutes, HaveEffectsWithoutIntervalsSinceFourMinutesAreTooFew) {
  ASSERT_TRUE(look());
  EXPECT_NEAR(effects().at("ttft").estimate, 0.18, 0.03);
  EXPECT_EQ(effects().at("ttft").interval, std::nullopt);
  EXPECT_EQ(state(), "too_few");
}

TEST_F(Live, WaitsUntilTheShadowHasPrefilledWhatItHolds) {
  replica_of(*candidate).settings.kv_tokens = 126'000;  // It prefills 100 a second.
  look();
  EXPECT_EQ(effects().at("ttft").interval, std::nullopt) << "four minutes are too few";
  replica_of(*candidate).settings.kv_tokens = 160'000;
  look(seconds(requests) + LiveComparison::every);
  EXPECT_THAT(effects(), IsEmpty());
}

class LiveWithControl : public Live {
 protected:
  LiveWithControl() {
    control->settings.control = true;
    change_snapshot([&](fleet::Snapshot& next) { next.shadows.push_back(control); });
  }
  /// The control's first token takes as long as the candidate's.
  void control_from(int first) {
    for (int i = first; i < requests; ++i) {
      auto primary = primary_of(i);
      finished.put(shadow_of(primary, "same", "same0", i));
      finished.put(std::move(primary));
    }
    history.take(finished, start);
  }
  const std::shared_ptr<fleet::ShadowRuntime> control = twin("same", "same0");
};

TEST_F(LiveWithControl, TheCandidateIsComparedWithItAndItWithThePrimary) {
  control_from(0);
  look();
  EXPECT_NEAR(effects("candidate").at("ttft").estimate, 0, 1e-6);
  EXPECT_NEAR(effects("same").at("ttft").estimate, 0.18, 0.03);
  control->state->on = false;
  look(seconds(requests) + LiveComparison::every);
  EXPECT_NEAR(effects("candidate").at("ttft").estimate, 0.18, 0.03) << "the control is off";
  EXPECT_THAT(effects("same"), IsEmpty());
}

TEST_F(LiveWithControl, NothingIsSaidBeforeTheControlIsWarm) {
  control_from(1000);
  look();
  EXPECT_THAT(effects("candidate"), IsEmpty());
}

TEST_F(LiveWithControl, AControlOfAnotherPrimaryIsNone) {
  control->settings.twin = "gpu1";
  control_from(0);
  look();
  EXPECT_NEAR(effects("candidate").at("ttft").estimate, 0.18, 0.03);
}

TEST_F(Live, OfASampleShowsTheLengthOfAnswersAlone) {
  candidate->settings.twin.clear();
  candidate->settings.sample = 1;
  look();
  EXPECT_THAT(metrics_of(), ElementsAre("output_tokens"));
  EXPECT_EQ(state(), "running");
}

/// Half an hour with as many requests, of which the candidate finishes some late ones not.
class LiveSpared : public LiveWithoutRequestsYet {
 protected:
  void run(std::chrono::milliseconds first_token) {
    for (int i = 0; i < 1800; ++i) {
      change = [&](auto& primary, auto& shadow) {
        shadow.answer.first_token = primary.received + first_token + std::chrono::milliseconds(i % 5);
        if (i >= 1700 && i < 1720) shadow.outcome = metrics::Outcome::upstream_reset;
      };
      add(i);
    }
    look(seconds(1800));
  }
};

TEST_F(LiveSpared, ShowsNoLatencyThatMayBeBetterForLackOfLoad) {
  run(std::chrono::milliseconds(50));
  EXPECT_THAT(metrics_of(), ::testing::Not(::testing::Contains("ttft")));
}

TEST_F(LiveSpared, ShowsLatencyThatIsWorseInSpiteOfIt) {
  run(std::chrono::milliseconds(150));
  EXPECT_GT(effects().at("ttft").estimate, 0.3);
  EXPECT_TRUE(effects().at("ttft").interval);
  EXPECT_FALSE(effects().contains("tpot")) << "shorter, perhaps for lack of load";
}

TEST_F(Live, IsComputedNowAndThenAndOnlyWhileAShadowIsOn) {
  candidate->state->on = false;
  EXPECT_FALSE(look());
  candidate->state->on = true;
  candidate->state->began = metrics::Moment::max();
  EXPECT_FALSE(look()) << "it has not been sent anything";
  candidate->state->began = start;
  EXPECT_TRUE(look());
  EXPECT_FALSE(look());
  EXPECT_FALSE(look(seconds(requests) + LiveComparison::every - seconds(1)));
  EXPECT_TRUE(look(seconds(requests) + LiveComparison::every));
  set_shadows({});
  EXPECT_FALSE(look(seconds(requests) + 2 * LiveComparison::every));
}

TEST_F(Live, BeginsNoSecondComparisonBesideTheFirst) {
  live.tick(*snapshot, start + seconds(requests));
  live.tick(*snapshot, start + seconds(requests) + LiveComparison::every);
  EXPECT_EQ(slow.under_way(), 1u);
  while (slow.under_way() > 0) context.run_one();
}

TEST_F(Live, GaugesEndWithTheShadow) {
  look();
  EXPECT_EQ(live.gauges(*snapshot).size(), 1u);
  candidate->state->on = false;
  EXPECT_THAT(live.gauges(*snapshot), IsEmpty());
  candidate->state->on = true;
  candidate->state->began = metrics::Moment::max();
  EXPECT_THAT(effects(), IsEmpty()) << "switched on, it begins anew";
  EXPECT_EQ(state(), "too_few");
  candidate->state->began = start;
  set_shadows({twin("candidate", "cand0")});
  EXPECT_THAT(effects(), IsEmpty()) << "another shadow of the same name knows nothing of the first";
  set_shadows({});
  EXPECT_THAT(live.gauges(*snapshot), IsEmpty());
}

}  // namespace
}  // namespace weir::proxy::shadows

// Settings are swapped whole. The tests look at what a replica, a pool and a shadow are, and at what they keep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/unit/proxy/fleet/fleet/fleet_of_replicas.hpp"

namespace weir::proxy::fleet {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(FleetTest, AReplicaKeepsItsStateOverASwapOfItsSettings) {
  auto settings = settings_of({replica("a", 1), replica("b", 2)});
  Fleet fleet(settings, exposition, 1);
  const auto before = fleet.snapshot();
  settings.pools[0].replicas[0].weight = 3;
  settings.pools[0].policy = config::Policy::round_robin;
  fleet.adopt(settings);
  const auto after = fleet.snapshot();
  ASSERT_NE(after, before);
  EXPECT_EQ(after->pools[0]->replicas[0]->state, before->pools[0]->replicas[0]->state);
  EXPECT_EQ(after->pools[0]->replicas[0]->settings.weight, 3);
  EXPECT_EQ(before->pools[0]->replicas[0]->settings.weight, 1) << "a snapshot never changes";
  EXPECT_EQ(after->pools[0]->balancer, before->pools[0]->balancer) << "the pool keeps its books";
}

TEST_F(FleetTest, AReplicaWithAnotherUrlIsANewOne) {
  Fleet fleet(settings_of({replica("a", 1)}), exposition, 1);
  const auto before = fleet.snapshot();
  fleet.adopt(settings_of({replica("a", 2)}));
  const auto after = fleet.snapshot();
  EXPECT_NE(after->pools[0]->replicas[0]->state, before->pools[0]->replicas[0]->state);
  EXPECT_NE(after->pools[0]->replicas[0]->state->id, before->pools[0]->replicas[0]->state->id);
  EXPECT_EQ(after->pools[0]->replicas[0]->state->address.get()->port(), 2);
  EXPECT_EQ(of(lease_on(*after)).settings.url.port, 2);
}

TEST_F(FleetTest, ALeaseOutlivesTheReplicaThatItIsOn) {
  Fleet fleet(settings_of({replica("a", 1)}), exposition, 1);
  const auto before = fleet.snapshot();
  auto lease = lease_on(*before);
  fleet.adopt(settings_of({replica("b", 2)}));
  EXPECT_EQ(of(lease).settings.name, "a");
  EXPECT_EQ(of(lease_on(*before)).settings.name, "b") << "of the old snapshot, too, what is new is chosen";
  lease.first_token(std::chrono::steady_clock::now());
  lease.tokens(3);
  lease.end(balancer::LeaseEnd(balancer::EndCause::answered), std::chrono::steady_clock::now());
  EXPECT_EQ(before->pools[0]->balancer->figures().in_flight(), 0u);
}

TEST_F(FleetTest, SeriesOfReplicasThatAreGoneAreExportedNoMore) {
  Fleet fleet(settings_of({replica("a", 1), replica("b", 2)}), exposition, 1);
  EXPECT_THAT(exposition.text(), HasSubstr("replica=\"b\""));
  fleet.adopt(settings_of({replica("a", 1), replica("c", 3)}));
  EXPECT_THAT(exposition.text(), Not(HasSubstr("replica=\"b\"")));
  EXPECT_THAT(exposition.text(), HasSubstr("replica=\"c\""));
}

TEST_F(FleetTest, AReloadAsksForUsageAgain) {
  Fleet fleet(settings_of({replica("a", 1)}), exposition, 1);
  const auto& state = fleet.snapshot()->pools[0]->replicas[0]->state;
  state->usage.refuse();
  state->usage.note_taken(metrics::Api::openai_chat);
  fleet.ask_for_usage_again();
  EXPECT_FALSE(state->usage.is_refused());
  EXPECT_FALSE(state->usage.was_taken(metrics::Api::openai_chat));
}

TEST_F(FleetTest, AnotherHealthPathOrKeyIsProbed) {
  auto settings = settings_of({replica("a", 1)});
  Fleet fleet(settings, exposition, 1);
  const auto state = fleet.snapshot()->pools[0]->replicas[0]->state;
  state->probe_connects = true;
  fleet.adopt(settings);
  EXPECT_TRUE(state->probe_connects);
  settings.pools[0].health.path = "/ping";
  fleet.adopt(settings);
  EXPECT_FALSE(state->probe_connects);
  state->probe_connects = true;
  settings.pools[0].replicas[0].api_key = "k";
  fleet.adopt(settings);
  EXPECT_FALSE(state->probe_connects);
}

TEST_F(FleetTest, APoolKeepsWhichRequestsCostTwoReplicas) {
  Fleet fleet(settings_of({replica("a", 1), replica("b", 2)}), exposition, 1);
  const auto now = metrics::Moment(std::chrono::hours(1));
  fleet.snapshot()->pools[0]->poison->note(7, false, now);
  fleet.adopt(settings_of({replica("a", 1), replica("c", 3)}));
  EXPECT_EQ(fleet.snapshot()->pools[0]->poison->look(7, true, now), balancer::story::PoisonMemory::Known::poison);
}

TEST_F(FleetTest, TheRetryBudgetFollowsTheSettingsAndTheRequestsInFlight) {
  auto settings = settings_of({replica("a", 1)});
  Fleet fleet(settings, exposition, 1);
  std::vector<balancer::Lease> leases;
  const metrics::Moment now(std::chrono::hours(1));
  for (const auto& [share, in_flight, allowed] :
       {std::tuple{0.0, 20u, 0}, {0.2, 0u, 3}, {0.2, 20u, 4}, {0.0, 20u, 0}}) {
    settings.limits.retry_budget = share;
    fleet.adopt(settings);
    while (leases.size() < in_flight) leases.push_back(lease_on(*fleet.snapshot()));
    if (in_flight == 0) leases.clear();
    int taken = 0;
    while (taken < 9 && fleet.retries().take(now)) ++taken;
    EXPECT_EQ(taken, allowed) << share << " of " << in_flight;
    for (int i = 0; i < taken; ++i) fleet.retries().give_back(now);
  }
}

EngineFigures told(metrics::Moment good_until) {
  EngineFigures figures;
  figures.engine = Engine::vllm;
  figures.version = "1";
  figures.model = "m";
  figures.kv_tokens = 1000;
  figures.load.emplace();
  figures.load->running = 3;
  figures.load->good_until = good_until;
  return figures;
}

TEST_F(FleetTest, WhatAnEngineToldIsExportedAndOutlivesAReload) {
  auto settings = settings_of({replica("a", 1), replica("b", 2)});
  Fleet fleet(settings, exposition, 1);
  const auto soon = std::chrono::steady_clock::now() + std::chrono::hours(1);
  fleet.snapshot()->pools[0]->replicas[0]->state->engine.set(told(soon));
  const auto is_shown = [&] {
    const auto page = exposition.text();
    EXPECT_THAT(page, HasSubstr("engine=\"vLLM\",version=\"1\",model=\"m\"} 1"));
    EXPECT_THAT(page, HasSubstr("role=\"primary\",state=\"running\"} 3"));
    EXPECT_THAT(page, HasSubstr("weir_kv_tokens{pool=\"chat\",replica=\"a\",config=\"a\",role=\"primary\"} 1000"));
  };
  is_shown();
  fleet.adopt(settings);
  is_shown();
  settings.pools[0].replicas[0].kv_tokens = 500;
  fleet.adopt(settings);
  EXPECT_THAT(exposition.text(), HasSubstr("role=\"primary\"} 500")) << "what is set counts first";
}

TEST_F(FleetTest, StaleFiguresAreUnknownAndWhatTheEngineIsStays) {
  Fleet fleet(settings_of({replica("a", 1)}), exposition, 1);
  fleet.snapshot()->pools[0]->replicas[0]->state->engine.set(told(std::chrono::steady_clock::now()));
  EXPECT_THAT(exposition.text(),
              AllOf(Not(HasSubstr("state=\"running\"")), HasSubstr("engine=\"vLLM\""), HasSubstr("} 1000")));
}

// Loops choose, hold and end leases while replicas come, go and move to other addresses.
TEST_F(FleetTest, IsSwappedUnderLoad) {
  Fleet fleet(settings_of({replica("a", 1), replica("b", 2)}), exposition, 1);
  std::atomic<bool> over = false;
  std::atomic<int> served = 0;
  const auto loop = [&] {
    while (!over) {
      const auto snapshot = fleet.snapshot();
      auto lease = lease_on(*snapshot);
      ASSERT_TRUE(lease);
      ASSERT_FALSE(of(lease).settings.name.empty());
      ASSERT_TRUE(of(lease).state->address.get());
      lease.first_token(std::chrono::steady_clock::now());
      lease.tokens(2);
      lease.end(balancer::LeaseEnd(balancer::EndCause::answered), std::chrono::steady_clock::now());
      ++served;
    }
  };
  std::thread one(loop), two(loop);
  std::uint16_t swaps = 0;
  for (; swaps < 200 || served < 1000; ++swaps) {
    const auto port = static_cast<std::uint16_t>(3 + swaps % 5);
    auto replicas = std::vector{replica("a", 1), replica("b", port)};
    if (swaps % 3 == 0) replicas.push_back(replica("c" + std::to_string(swaps % 7), 9));
    fleet.adopt(settings_of(replicas));
    static_cast<void>(exposition.text());
  }
  over = true;
  one.join();
  two.join();
  fleet.adopt(settings_of({replica("a", 1)}));
  EXPECT_EQ(fleet.in_flight(), 0u);
  const auto load = fleet.snapshot()->pools[0]->balancer->figures().load(fleet.snapshot()->pools[0]->replicas[0]->key.index,
                                                            std::chrono::steady_clock::now());
  EXPECT_EQ(load.in_flight, 0u);
  EXPECT_EQ(load.prefill_left, 0u);
  EXPECT_EQ(load.decode_left, 0u);
}

/// Answers to other questions, or beside those of another primary, are no part of one comparison.
TEST_F(FleetTest, AShadowBeginsAnewWhereWhatIsComparedIsAnother) {
  auto settings = settings_of({replica("a", 1), replica("b", 2)});
  config::Shadow shadow;
  shadow.name = "fp8";
  shadow.of = "chat";
  shadow.twin = "a";
  shadow.replicas = {replica("c", 3)};
  settings.shadows = {shadow};
  const auto goes_on_and_is_on = [&](auto change) {
    Fleet fleet(settings, exposition, 1);
    const auto before = fleet.snapshot()->shadows.at(0)->state;
    before->on = false;
    auto next = settings;
    change(next);
    fleet.adopt(next);
    const auto after = fleet.snapshot()->shadows.at(0)->state;
    return std::pair(after == before, after->on.load());
  };
  using Settings = config::Settings;
  const std::pair goes_on(true, false), is_new(false, true), has_another_primary(false, false);
  EXPECT_EQ(goes_on_and_is_on([](Settings&) {}), goes_on);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.shadows[0].max_in_flight = 7; }), goes_on);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.pools[0].replicas[0].weight = 2; }), goes_on);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.shadows[0].replicas[0].cost_per_hour = 2.5; }), goes_on);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.shadows[0].replicas[0].weight = 2; }), goes_on);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.shadows[0].replicas[0].kv_tokens = 1000; }), goes_on);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.shadows[0].replicas[0].max_in_flight = 4; }), goes_on);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.shadows[0].replicas[0].api_key = "sk-new"; }), goes_on);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.shadows[0].replicas[0].name = "d"; }), is_new);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.shadows[0].replicas[0].config = "v2"; }), is_new);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.shadows[0].replicas[0].gpu = "H200"; }), is_new);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.shadows[0].replicas.push_back(replica("d", 4)); }), is_new);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.pools[0].replicas[1].url.port = 9; }), goes_on);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.shadows[0].replicas[0].url.port = 9; }), is_new);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.shadows[0].set = {{"model", "\"v2\""}}; }), is_new);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.shadows[0].forward_auth = true; }), is_new);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.shadows[0].sample = 0.1; }), is_new);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.shadows[0].exclude_keys = {"ab"}; }), is_new);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.pools[0].replicas[0].url.port = 9; }), has_another_primary);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.pools[0].replicas[0].config = "v2"; }), has_another_primary);
}

}  // namespace
}  // namespace weir::proxy::fleet

// Swapped settings and drains: replicas and pools leave when their last request has ended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "tests/unit/proxy/fleet/fleet/fleet_of_replicas.hpp"

namespace weir::proxy::fleet {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(FleetTest, AReplicaLeavesWhenItsLastRequestHasEnded) {
  Fleet fleet(settings_of({replica("a", 1)}), exposition, 1);
  auto before = fleet.snapshot();
  const auto state = before->pools[0]->replicas[0]->state;
  auto lease = lease_on(*before);
  before.reset();
  fleet.adopt(settings_of({replica("a", 2)}));
  ASSERT_EQ(fleet.snapshot()->leaving.size(), 1u);
  const auto& [pool, leaving, since] = fleet.snapshot()->leaving[0];
  EXPECT_EQ(pool->health().of(leaving->key, std::chrono::steady_clock::now()).state, metrics::ReplicaState::draining);
  EXPECT_EQ(pool->figures().in_flight(leaving->key), 1u);
  fleet.look_after_drains();
  EXPECT_EQ(fleet.snapshot()->leaving.size(), 1u);
  EXPECT_FALSE(state->cut);
  lease.end(balancer::LeaseEnd(balancer::EndCause::answered), std::chrono::steady_clock::now());
  fleet.look_after_drains();
  EXPECT_TRUE(fleet.snapshot()->leaving.empty());
}

TEST_F(FleetTest, AReplicaThatComesBackWhileItLeavesIsTheSame) {
  Fleet fleet(settings_of({replica("a", 1), replica("b", 2)}), exposition, 1);
  const auto state = fleet.snapshot()->pools[0]->replicas[0]->state;
  std::vector<balancer::Lease> leases;
  for (int i = 0; i < 8; ++i) leases.push_back(lease_on(*fleet.snapshot()));
  fleet.adopt(settings_of({replica("b", 2)}));
  ASSERT_EQ(fleet.snapshot()->leaving.size(), 1u);
  fleet.adopt(settings_of({replica("b", 2), replica("a", 1)}));
  EXPECT_TRUE(fleet.snapshot()->leaving.empty());
  EXPECT_EQ(fleet.snapshot()->pools[0]->replicas[1]->state, state);
}

TEST_F(FleetTest, WhatRunsLongerThanADrainMayIsCut) {
  auto settings = settings_of({replica("a", 1), replica("b", 2)});
  settings.limits.drain = config::Seconds(0);
  Fleet fleet(settings, exposition, 1);
  const auto lease = lease_on(*fleet.snapshot());
  const auto name = of(lease).settings.name;
  const auto state = of(lease).state;
  EXPECT_EQ(fleet.set_draining(name, true, false), Fleet::Draining::set);
  fleet.look_after_drains();
  EXPECT_TRUE(state->cut);
  EXPECT_EQ(fleet.set_draining(name, false, false), Fleet::Draining::set);
  EXPECT_FALSE(state->cut) << "its next requests are not";
}

TEST_F(FleetTest, ADrainedReplicaTakesNothingUntilItIsToTakeAgain) {
  Fleet fleet(settings_of({replica("a", 1), replica("b", 2)}), exposition, 1);
  EXPECT_EQ(fleet.set_draining("c", true, false), Fleet::Draining::unknown);
  EXPECT_EQ(fleet.set_draining("a", true, false), Fleet::Draining::set);
  EXPECT_EQ(fleet.set_draining("a", true, false), Fleet::Draining::already);
  EXPECT_EQ(fleet.set_draining("b", true, false), Fleet::Draining::last_one);
  auto heavier = replica("a", 1);
  heavier.weight = 3;
  fleet.adopt(settings_of({heavier, replica("b", 2)}));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(of(lease_on(*fleet.snapshot())).settings.name, "b") << "over a reload, too";
  EXPECT_EQ(fleet.set_draining("b", true, true), Fleet::Draining::set) << "forced";
  EXPECT_FALSE(any_up(*fleet.snapshot()->pools[0], std::chrono::steady_clock::now()));
  EXPECT_EQ(fleet.set_draining("a", false, false), Fleet::Draining::set);
  EXPECT_TRUE(any_up(*fleet.snapshot()->pools[0], std::chrono::steady_clock::now()));
  EXPECT_EQ(of(lease_on(*fleet.snapshot())).settings.name, "a");
}

TEST_F(FleetTest, ADrainReadsNoFilesOfTls) {
  const auto directory = std::filesystem::path(::testing::TempDir()) / "files-of-tls";
  std::filesystem::create_directory(directory);
  const std::string from = std::string(WEIR_TEST_DATA) + "/tls/local";
  const auto cert = directory / "cert.pem", key = directory / "key.pem";
  std::filesystem::copy_file(from + ".pem", cert, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::copy_file(from + ".key", key, std::filesystem::copy_options::overwrite_existing);
  auto settings = settings_of({replica("a", 1), replica("b", 2)});
  settings.server.tls = config::ServerTls{{{cert.string(), key.string()}}};
  Fleet fleet(settings, exposition, 1);
  const auto before = fleet.snapshot();
  ASSERT_NE(before->server_tls, nullptr);
  std::filesystem::remove_all(directory);
  for (const bool drains : {true, false}) {
    EXPECT_EQ(fleet.set_draining("a", drains, false), Fleet::Draining::set);
    const auto after = fleet.snapshot();
    EXPECT_EQ(after->server_tls, before->server_tls);
    if (drains) {
      EXPECT_EQ(of(lease_on(*after)).settings.name, "b");
    }
  }
}

TEST_F(FleetTest, APoolThatIsGoneLetsItsRequestsFinish) {
  auto settings = settings_of({replica("a", 1)});
  Fleet fleet(settings, exposition, 1);
  auto lease = lease_on(*fleet.snapshot());
  settings.pools[0].name = "code";
  settings.pools[0].replicas[0].name = "b";
  fleet.adopt(settings);
  ASSERT_EQ(fleet.snapshot()->leaving.size(), 1u);
  EXPECT_EQ(fleet.snapshot()->leaving[0].replica->settings.name, "a");
  lease.end(balancer::LeaseEnd(balancer::EndCause::answered), std::chrono::steady_clock::now());
  fleet.look_after_drains();
  EXPECT_TRUE(fleet.snapshot()->leaving.empty());
}

/// Drops what it is granted.
class NobodyWaits final : public balancer::GrantSink {
 public:
  void grant(std::vector<balancer::Granted>) noexcept override {}
};

balancer::Offered waits_in(const PoolRuntime& pool, const metrics::wire::RequestFacts& facts) {
  balancer::PlacementRequest placement{std::make_shared<const metrics::wire::RequestFacts>(facts)};
  placement.waiter = std::make_shared<int>(0);
  return pool.balancer->offer(placement, std::chrono::steady_clock::now());
}

TEST_F(FleetTest, APoolThatIsGoneIsLookedAtWhileRequestsWaitInIt) {
  NobodyWaits sink;
  auto settings = settings_of({replica("a", 1)});
  Fleet fleet(settings, exposition, 1, &sink);
  auto held = fleet.snapshot();  // As the request holds it.
  const auto& pool = *held->pools[0];
  pool.balancer->health().report(pool.replicas[0]->key, balancer::Sign::full, std::chrono::steady_clock::now(),
                        std::chrono::hours(1));
  const metrics::wire::RequestFacts facts;
  const auto ticket = std::get<balancer::Waiting>(waits_in(pool, facts)).ticket;
  auto other = settings;
  other.pools[0].name = "code";
  other.pools[0].replicas[0].name = "b";
  fleet.adopt(other);
  fleet.adopt(other);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(fleet.snapshot()->leaving_pools.size(), 1u);
    EXPECT_EQ(fleet.snapshot()->leaving_pools[0]->balancer, pool.balancer);
    EXPECT_EQ(fleet.snapshot()->leaving.size(), 1u) << "its replica is to take the request";
    EXPECT_THAT(exposition.text(), HasSubstr("weir_requests_waiting{pool=\"chat\",role=\"primary\"} 1"));
    fleet.look_after_drains();
  }
  pool.balancer->leave(ticket, std::chrono::steady_clock::now());
  fleet.look_after_drains();
  EXPECT_TRUE(fleet.snapshot()->leaving.empty());
  EXPECT_EQ(fleet.snapshot()->leaving_pools.size(), 1u) << "the request may still come back";
  held.reset();
  fleet.look_after_drains();
  EXPECT_TRUE(fleet.snapshot()->leaving_pools.empty());
  EXPECT_THAT(exposition.text(), Not(HasSubstr("weir_requests_waiting{pool=\"chat\"")));
}

TEST_F(FleetTest, APoolThatIsGoneIsLookedAtWhateverCameBetween) {
  NobodyWaits sink;
  const auto settings = settings_of({replica("a", 1)});
  Fleet fleet(settings, exposition, 1, &sink);
  const auto held = fleet.snapshot();
  const auto& pool = *held->pools[0];
  pool.balancer->health().report(pool.replicas[0]->key, balancer::Sign::full, std::chrono::steady_clock::now(),
                        std::chrono::hours(1));
  const metrics::wire::RequestFacts facts;
  const auto ticket = std::get<balancer::Waiting>(waits_in(pool, facts)).ticket;
  fleet.adopt(settings);
  auto other = settings;
  other.pools[0].name = "code";
  other.limits.drain = std::chrono::seconds(0);
  fleet.adopt(other);
  fleet.look_after_drains();
  ASSERT_EQ(fleet.snapshot()->leaving_pools.size(), 1u) << "the request holds an older snapshot's";
  EXPECT_FALSE(fleet.snapshot()->leaving[0].replica->state->cut) << "its replica is waited for";
  pool.balancer->leave(ticket, std::chrono::steady_clock::now());
  fleet.look_after_drains();
  EXPECT_TRUE(fleet.snapshot()->leaving_pools.empty());
}

TEST_F(FleetTest, APoolThatComesBackWhileRequestsWaitInItKeepsThem) {
  NobodyWaits sink;
  const auto settings = settings_of({replica("a", 1)});
  Fleet fleet(settings, exposition, 1, &sink);
  const auto held = fleet.snapshot();
  auto other = settings;
  other.pools[0].name = "code";
  fleet.adopt(other);
  fleet.adopt(settings);
  EXPECT_TRUE(fleet.snapshot()->leaving.empty());
  EXPECT_EQ(fleet.snapshot()->pools[0]->balancer, held->pools[0]->balancer);
  EXPECT_EQ(fleet.snapshot()->pools[0]->replicas[0]->state, held->pools[0]->replicas[0]->state);
  fleet.look_after_drains();
  EXPECT_TRUE(fleet.snapshot()->leaving_pools.empty()) << "nobody has the other one";
}

TEST_F(FleetTest, WhatRunsInAPoolThatIsGoneHasItsTimeFromThenOn) {
  auto settings = settings_of({replica("a", 1)});
  settings.limits.drain = config::Seconds(0.05);
  Fleet fleet(settings, exposition, 1);
  const auto lease = lease_on(*fleet.snapshot());
  const auto state = of(lease).state;
  const auto begun = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begun < std::chrono::milliseconds(60)) std::this_thread::yield();
  settings.pools[0].name = "code";
  settings.limits.drain = config::Seconds(300);
  fleet.adopt(settings);
  fleet.look_after_drains();
  EXPECT_FALSE(state->cut);
  EXPECT_GT(fleet.snapshot()->leaving.at(0).since, begun);
  settings.limits.drain = config::Seconds(0);
  fleet.adopt(settings);
  fleet.look_after_drains();
  EXPECT_TRUE(state->cut);
}

TEST_F(FleetTest, AReplicaWithoutAnAddressIsNoOtherOneToGoTo) {
  auto unknown = replica("b", 2);
  unknown.url.host = "no-such-host.invalid";
  Fleet fleet(settings_of({replica("a", 1), unknown}), exposition, 1);
  EXPECT_EQ(fleet.set_draining("a", true, false), Fleet::Draining::last_one);
}

}  // namespace
}  // namespace weir::proxy::fleet

// The members of a name: replicas that come and go as the name's addresses do, and their drains.
#include <gtest/gtest.h>

#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/unit/proxy/fleet/fleet/fleet_of_replicas.hpp"

namespace weir::proxy::fleet {
namespace {

config::Settings with_a_name() {
  auto one = replica("gpu", 8000);
  one.url.host = "engines.example";
  one.expand = true;
  return settings_of({one});
}

Discovered members(std::initializer_list<std::pair<unsigned, const char*>> all) {
  std::vector<Member> list;
  for (const auto& [number, address] : all) list.push_back({number, boost::asio::ip::make_address(address)});
  return {{{"gpu", "engines.example"}, list}};
}

std::string names_in(const Snapshot& snapshot) {
  std::string names;
  for (const auto& one : snapshot.pools[0]->replicas)
    names += one->settings.name + "=" + one->state->address.get()->address().to_string() + " ";
  return names;
}

TEST_F(FleetTest, MembersOfANameAreReplicasAndOutliveAReload) {
  Fleet fleet(with_a_name(), exposition, 1);
  EXPECT_EQ(names_in(*fleet.snapshot()), "") << "nothing was discovered yet";
  fleet.adopt(members({{1, "10.0.0.1"}, {4, "10.0.0.2"}}));
  EXPECT_EQ(names_in(*fleet.snapshot()), "gpu-1=10.0.0.1 gpu-4=10.0.0.2 ");
  const auto before = fleet.snapshot();
  EXPECT_EQ(before->settings, with_a_name()) << "the settings stay as they were read";
  auto settings = with_a_name();
  settings.pools[0].replicas[0].weight = 2;
  fleet.adopt(settings);
  EXPECT_EQ(fleet.snapshot()->pools[0]->replicas[1]->settings.weight, 2);
  fleet.adopt(members({{1, "10.0.0.3"}, {4, "10.0.0.2"}}));
  EXPECT_EQ(names_in(*fleet.snapshot()), "gpu-1=10.0.0.3 gpu-4=10.0.0.2 ");
  const auto& replicas = fleet.snapshot()->pools[0]->replicas;
  EXPECT_NE(replicas[0]->state, before->pools[0]->replicas[0]->state) << "another address is another";
  EXPECT_NE(replicas[0]->key.serial, before->pools[0]->replicas[0]->key.serial);
  EXPECT_EQ(replicas[1]->state, before->pools[0]->replicas[1]->state);
}

class Grantees final : public balancer::GrantSink {
 public:
  void grant(std::vector<balancer::Granted> granted) noexcept override {
    for (auto& one : granted) all.push_back(std::move(one));
  }
  std::vector<balancer::Granted> all;
};

TEST_F(FleetTest, ARequestWaitsForTheFirstMemberOfAName) {
  Grantees grantees;
  Fleet fleet(with_a_name(), exposition, 1, &grantees);
  const auto pool = fleet.snapshot()->pools[0]->balancer;
  const metrics::wire::RequestFacts facts;
  balancer::PlacementRequest placement{std::make_shared<const metrics::wire::RequestFacts>(facts)};
  placement.waiter = std::make_shared<int>(1);
  EXPECT_TRUE(std::holds_alternative<balancer::Waiting>(pool->offer(placement, std::chrono::steady_clock::now())));
  fleet.adopt(members({{1, "10.0.0.1"}}));
  ASSERT_EQ(grantees.all.size(), 1u);
  EXPECT_EQ(of(std::get<balancer::Lease>(grantees.all[0].what)).settings.name, "gpu-1");
  grantees.all.clear();
}

std::string draining_in(const Snapshot& snapshot) {
  std::string names;
  for (const auto& one : snapshot.pools[0]->replicas)
    if (snapshot.pools[0]->balancer->health().of(one->key, std::chrono::steady_clock::now()).state ==
        metrics::ReplicaState::draining)
      names += one->settings.name + " ";
  return names;
}

// Answers may lack a member that runs, and a drained one leaves then.
TEST_F(FleetTest, AMemberThatComesBackIsStillDrainedUnderWhateverNumberUntilItIsUndrained) {
  Fleet fleet(with_a_name(), exposition, 1);
  fleet.adopt(members({{1, "10.0.0.1"}, {2, "10.0.0.2"}}));
  EXPECT_EQ(fleet.set_draining("gpu-2", true, true), Fleet::Draining::set);
  fleet.adopt(members({{1, "10.0.0.1"}}));
  fleet.look_after_drains();
  fleet.adopt(members({{1, "10.0.0.1"}, {2, "10.0.0.7"}}));
  EXPECT_EQ(draining_in(*fleet.snapshot()), "") << "another machine has its number";
  fleet.adopt(members({{1, "10.0.0.1"}, {2, "10.0.0.7"}, {3, "10.0.0.2"}}));
  EXPECT_EQ(draining_in(*fleet.snapshot()), "gpu-3 ");
  EXPECT_EQ(fleet.set_draining("gpu-3", true, true), Fleet::Draining::already);
  EXPECT_EQ(fleet.set_draining("gpu-3", false, true), Fleet::Draining::set);
  fleet.adopt(members({{1, "10.0.0.1"}}));
  fleet.adopt(members({{1, "10.0.0.1"}, {2, "10.0.0.2"}}));
  EXPECT_EQ(draining_in(*fleet.snapshot()), "");
}

TEST_F(FleetTest, ADrainIsForgottenWithTheNameInTheSettings) {
  Fleet fleet(with_a_name(), exposition, 1);
  fleet.adopt(members({{1, "10.0.0.1"}, {2, "10.0.0.2"}}));
  fleet.set_draining("gpu-2", true, true);
  fleet.adopt(settings_of({replica("a", 1), replica("b", 2)}));
  EXPECT_EQ(fleet.set_draining("a", true, false), Fleet::Draining::set);
  fleet.adopt(with_a_name());
  EXPECT_EQ(draining_in(*fleet.snapshot()), "");
  fleet.adopt(settings_of({replica("a", 1), replica("b", 2)}));
  EXPECT_EQ(draining_in(*fleet.snapshot()), "");
}

}  // namespace
}  // namespace weir::proxy::fleet

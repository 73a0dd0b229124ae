// Settings are swapped whole. The tests look at what a replica is, what it keeps, and what goes with it.
#include "proxy/fleet/fleet.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <tuple>

#include "proxy/fleet/idle_connections.hpp"

namespace weir::proxy::fleet {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

config::Replica replica(std::string name, std::uint16_t port) {
  config::Replica one;
  one.name = std::move(name);
  one.config = one.name;
  one.url = {.host = "127.0.0.1", .port = port, .prefix = "", .authority = "127.0.0.1:" + std::to_string(port)};
  return one;
}

config::Settings settings_of(std::vector<config::Replica> replicas) {
  config::Pool pool;
  pool.name = "chat";
  pool.replicas = std::move(replicas);
  config::Settings settings;
  settings.pools = {pool};
  return settings;
}

balancer::Lease lease_on(const Snapshot& snapshot) {
  metrics::wire::RequestFacts facts;
  auto offered = snapshot.pools.front()->balancer->offer(facts, std::chrono::steady_clock::now());
  return std::move(std::get<balancer::Admitted>(offered).lease);
}

const Replica& of(const balancer::Lease& lease) { return *static_cast<Replica*>(lease.subject().get()); }

class FleetTest : public ::testing::Test {
 protected:
  metrics::series::Exposition exposition{1, {"0", "test"}};
};

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
  EXPECT_FALSE(fleet.any_up());
  EXPECT_EQ(fleet.set_draining("a", false, false), Fleet::Draining::set);
  EXPECT_TRUE(fleet.any_up());
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

TEST_F(FleetTest, APoolKeepsWhatOneReplicaSaidOfAnother) {
  Fleet fleet(settings_of({replica("a", 1), replica("b", 2)}), exposition, 1);
  const auto now = metrics::Moment(std::chrono::hours(1));
  const balancer::story::SecondOpinions::Case one{fleet.snapshot()->pools[0]->replicas[0]->state->id, 404, "m"};
  fleet.snapshot()->pools[0]->opinions->note(one, balancer::story::SecondOpinions::Opinion::better, now);
  fleet.adopt(settings_of({replica("a", 1), replica("c", 3)}));
  EXPECT_EQ(fleet.snapshot()->pools[0]->opinions->of(one, now), balancer::story::SecondOpinions::Opinion::better);
}

TEST_F(FleetTest, TheRetryBudgetFollowsTheSettingsAndTheRequestsInFlight) {
  auto settings = settings_of({replica("a", 1)});
  Fleet fleet(settings, exposition, 1);
  std::vector<balancer::Lease> leases;
  for (const auto& [share, in_flight, allowed] :
       {std::tuple{0.0, 20u, 0}, {0.2, 0u, 3}, {0.2, 20u, 4}, {0.0, 20u, 0}}) {
    settings.limits.retry_budget = share;
    fleet.adopt(settings);
    while (leases.size() < in_flight) leases.push_back(lease_on(*fleet.snapshot()));
    if (in_flight == 0) leases.clear();
    int taken = 0;
    while (taken < 9 && fleet.retries().take()) ++taken;
    EXPECT_EQ(taken, allowed) << share << " of " << in_flight;
    for (int i = 0; i < taken; ++i) fleet.retries().give_back();
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
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.pools[0].replicas[1].url.port = 9; }), goes_on);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.shadows[0].replicas[0].url.port = 9; }), is_new);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.shadows[0].set = {{"model", "\"v2\""}}; }), is_new);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.shadows[0].forward_auth = true; }), is_new);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.shadows[0].exclude_keys = {"ab"}; }), is_new);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.pools[0].replicas[0].url.port = 9; }), has_another_primary);
  EXPECT_EQ(goes_on_and_is_on([](Settings& next) { next.pools[0].replicas[0].config = "v2"; }), has_another_primary);
}

}  // namespace
}  // namespace weir::proxy::fleet

// A member of the snapshot that a change does not name stays the same object: clients' keys and TLS above all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>

#include "proxy/fleet/fleet.hpp"
#include "proxy/keys/client_keys.hpp"

namespace weir::proxy::fleet {
namespace {

using Names = std::set<std::string>;

std::string certificate(const std::string& end) { return std::string(WEIR_TEST_DATA) + "/tls/local" + end; }

config::Replica at_port(std::string name, std::uint16_t port) {
  config::Replica one;
  one.name = std::move(name);
  one.url = {.host = "127.0.0.1", .port = port, .prefix = "", .authority = "127.0.0.1:" + std::to_string(port)};
  return one;
}

config::ClientKey key_of(const std::string& name) {
  config::ClientKey key;
  key.name = name;
  return key;
}

/// Clients need keys and TLS; two pools, one with replicas of a name, and a shadow.
config::Settings guarded() {
  config::Settings settings;
  settings.server.api_keys = "keys.toml";
  settings.server.keys = {key_of("alice")};
  settings.server.tls = config::ServerTls{{{certificate(".pem"), certificate(".key")}}};
  auto named = at_port("gpu", 3);
  named.url.host = "engines.example";
  named.expand = true;
  config::Pool chat, code;
  chat.name = "chat";
  chat.replicas = {at_port("a", 1), at_port("b", 2), named};
  code.name = "code";
  code.replicas = {at_port("c", 4)};
  settings.pools = {chat, code};
  config::Shadow shadow;
  shadow.name = "fp8";
  shadow.of = "chat";
  shadow.replicas = {at_port("s", 5)};
  settings.shadows = {shadow};
  return settings;
}

bool same(const LeavingReplica& a, const LeavingReplica& b) {
  return a.balancer == b.balancer && a.replica == b.replica && a.since == b.since;
}

/// A member that is new in Snapshot does not compile until it is compared here, and named by a change below.
Names changed(const Snapshot& before, const Snapshot& after) {
  const auto& [keys, settings, server_tls, pools, shadows, all_pools, leaving, leaving_pools] = before;
  Names names;
  if (!(settings == after.settings)) names.insert("settings");
  if (keys != after.keys) names.insert("keys");
  if (server_tls != after.server_tls) names.insert("server_tls");
  if (pools != after.pools) names.insert("pools");
  if (shadows != after.shadows) names.insert("shadows");
  if (all_pools != after.all_pools) names.insert("all_pools");
  if (!std::ranges::equal(leaving, after.leaving, same)) names.insert("leaving");
  if (leaving_pools != after.leaving_pools) names.insert("leaving_pools");
  return names;
}

class SnapshotChanges : public ::testing::Test {
 protected:
  /// Applies the change, and returns which members it has changed.
  Names by(const std::function<void()>& change) {
    const auto before = fleet.snapshot();
    change();
    const auto after = fleet.snapshot();
    EXPECT_NE(after->keys, nullptr);
    EXPECT_NE(after->server_tls, nullptr);
    auto all = after->pools;
    for (const auto& shadow : after->shadows) all.push_back(shadow->pool);
    EXPECT_EQ(after->all_pools, all);
    return changed(*before, *after);
  }
  balancer::Lease lease() {
    const metrics::wire::RequestFacts facts;
    const balancer::PlacementRequest placement{std::make_shared<const metrics::wire::RequestFacts>(facts)};
    auto offered = fleet.snapshot()->pools.front()->balancer->offer(placement, std::chrono::steady_clock::now());
    return std::move(std::get<balancer::Admitted>(offered).lease);
  }
  static std::string name_of(const balancer::Lease& lease) {
    return static_cast<Replica*>(lease.subject().get())->settings.name;
  }

  metrics::series::Exposition exposition{1, {"0", "test"}};
  config::Settings settings = guarded();
  Fleet fleet{settings, exposition, 1};
  const Names runtimes{"pools", "shadows", "all_pools"};  ///< The members that each adoption makes anew.
};

TEST_F(SnapshotChanges, AReloadDrainsAndDiscoveryChangeWhatTheyNameAndNothingElse) {
  EXPECT_EQ(by([&] { fleet.look_after_drains(); }), Names());
  EXPECT_EQ(by([&] { fleet.adopt(settings); }), runtimes) << "a reload of the same settings";
  EXPECT_EQ(by([&] { fleet.look_after_drains(); }), Names());
  EXPECT_EQ(by([&] { fleet.set_draining("a", true, false); }), runtimes);
  EXPECT_EQ(by([&] { fleet.set_draining("a", false, false); }), runtimes);
  const Discovered members{{{"gpu", "engines.example"}, {{1, boost::asio::ip::make_address("10.0.0.1")}}}};
  EXPECT_EQ(by([&] { fleet.adopt(members); }), runtimes);
  EXPECT_EQ(by([&] { fleet.adopt(Discovered()); }), runtimes);
  settings.limits.drain = config::Seconds(7);
  auto wanted = runtimes;
  wanted.insert("settings");
  EXPECT_EQ(by([&] { fleet.adopt(settings); }), wanted);
  settings.server.keys = {key_of("alice"), key_of("bob")};
  wanted.insert("keys");
  EXPECT_EQ(by([&] { fleet.adopt(settings); }), wanted);
}

TEST_F(SnapshotChanges, SettingsThatAreRefusedChangeNoPool) {
  const auto before = fleet.snapshot();
  const auto without_tls = fleet.prepare([&] {
    auto other = settings;
    other.server.tls.reset();
    return other;
  }());
  auto wanted = settings;
  ASSERT_TRUE(wanted.server.tls);
  wanted.pools[0].max_in_flight = 1;
  wanted.pools[0].queue.requests = 0;
  EXPECT_THROW(fleet.adopt(wanted, without_tls, before->keys), std::logic_error);
  EXPECT_EQ(fleet.snapshot(), before);
  std::vector<balancer::Lease> held;
  for (int i = 0; i < 3; ++i) EXPECT_NO_THROW(held.push_back(lease())) << "its limits are what they were";
}

TEST_F(SnapshotChanges, AReplicaThatLeavesGoesAlone) {
  auto request = lease();
  const auto leaves = name_of(request);
  std::erase_if(settings.pools[0].replicas, [&](const auto& one) { return one.name == leaves; });
  auto wanted = runtimes;
  wanted.insert({"settings", "leaving"});
  EXPECT_EQ(by([&] { fleet.adopt(settings); }), wanted);
  EXPECT_EQ(by([&] { fleet.look_after_drains(); }), Names()) << "it has its request";
  request.end(balancer::LeaseEnd(balancer::EndCause::answered), std::chrono::steady_clock::now());
  EXPECT_EQ(by([&] { fleet.look_after_drains(); }), Names{"leaving"});
}

TEST_F(SnapshotChanges, OldKeysAreHandedOutToBeFreedOnceNoRequestKnowsThem) {
  const auto taken = [this] { return fleet.take_unused_keys(); };
  const config::SharedList<config::ClientKey> other{key_of("bob")};
  auto held = fleet.snapshot();  // As a request on a loop holds it.
  const std::weak_ptr<const keys::ClientKeys> old = held->keys;
  fleet.adopt(settings);
  fleet.adopt(Discovered());
  EXPECT_EQ(fleet.snapshot()->keys, old.lock()) << "they are the same";
  EXPECT_EQ(&fleet.snapshot()->settings.server.keys.all(), &held->settings.server.keys.all()) << "and are there once";
  settings.server.keys = other;
  fleet.adopt(settings);
  EXPECT_EQ(taken().size(), 0u) << "a request has the first ones";
  settings.server.keys = {key_of("carol")};
  fleet.adopt(settings);
  EXPECT_EQ(taken().size(), 1u) << "the second ones were nobody's";
  held.reset();
  EXPECT_FALSE(old.expired()) << "the end of a request frees no keys";
  EXPECT_EQ(taken().size(), 1u);
  EXPECT_TRUE(old.expired());
  EXPECT_EQ(taken().size(), 0u);
}

TEST_F(SnapshotChanges, AKeysCountsOutlastAReload) {
  auto alice = key_of("alice");
  alice.sha256 = keys::sha256("secret");
  settings.server.keys = {alice};
  fleet.adopt(settings);
  const auto use = fleet.snapshot()->keys->find("secret")->use;
  alice.share = 2;
  settings.server.keys = {alice};
  fleet.adopt(settings);
  EXPECT_EQ(fleet.snapshot()->keys->find("secret")->use, use);
}

TEST_F(SnapshotChanges, APoolAndAShadowThatLeaveGoAlone) {
  auto held = fleet.snapshot();  // As a request holds it.
  settings.pools.pop_back();
  settings.shadows.clear();
  auto wanted = runtimes;
  wanted.insert({"settings", "leaving_pools"});
  EXPECT_EQ(by([&] { fleet.adopt(settings); }), wanted);
  EXPECT_EQ(by([&] { fleet.look_after_drains(); }), Names());
  held.reset();
  EXPECT_EQ(by([&] { fleet.look_after_drains(); }), Names{"leaving_pools"});
}

TEST(Snapshot, IsNotMadeWhereItWouldLetInWhomItsSettingsKeepOut) {
  const auto none = [](Snapshot&) {};
  EXPECT_NO_THROW(Snapshot::changed(nullptr, none));
  const auto with = [](const std::function<void(config::Server&)>& change) {
    return Snapshot::changed(nullptr, [&](Snapshot& next) { change(next.settings.server); });
  };
  EXPECT_THROW(with([](config::Server& server) { server.api_keys = "keys.toml"; }), std::logic_error);
  EXPECT_THROW(with([](config::Server& server) { server.keys = {key_of("a")}; }), std::logic_error);
  EXPECT_THROW(with([](config::Server& server) { server.tls.emplace(); }), std::logic_error);
  metrics::series::Exposition exposition(1, {"0", "test"});
  const Fleet fleet(guarded(), exposition, 1);
  const auto good = fleet.snapshot();
  EXPECT_NO_THROW(Snapshot::changed(good.get(), none));
  EXPECT_THROW(Snapshot::changed(good.get(), [](Snapshot& next) { next.keys = nullptr; }), std::logic_error);
  EXPECT_THROW(Snapshot::changed(good.get(), [](Snapshot& next) { next.server_tls = nullptr; }), std::logic_error);
  EXPECT_THROW(Snapshot::changed(good.get(), [](Snapshot& next) { next.settings = {}; }), std::logic_error)
      << "nor does one that asks for keys where the settings ask for none";
}

}  // namespace
}  // namespace weir::proxy::fleet

#include "proxy/fleet/snapshot.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace weir::proxy::fleet {
namespace {

std::shared_ptr<const Snapshot> snapshot_of(const std::vector<std::vector<std::string>>& models_of_pools) {
  return Snapshot::changed(nullptr, [&](Snapshot& next) {
    for (const auto& models : models_of_pools) {
      auto pool = std::make_unique<PoolRuntime>();
      pool->settings.models = models;
      next.pools.push_back(std::move(pool));
    }
  });
}

TEST(Snapshot, TakesTheFirstPoolThatServesTheModel) {
  const auto made = snapshot_of({{"a", "b"}, {"b", "c"}});
  const auto& snapshot = *made;
  EXPECT_EQ(snapshot.pool_for("a"), snapshot.pools[0].get());
  EXPECT_EQ(snapshot.pool_for("b"), snapshot.pools[0].get());
  EXPECT_EQ(snapshot.pool_for("c"), snapshot.pools[1].get());
  EXPECT_EQ(snapshot.pool_for("d"), nullptr);
  EXPECT_EQ(snapshot_of({})->pool_for("a"), nullptr);
}

TEST(Snapshot, TakesTheFirstPoolWhereARequestNamesNoModel) {
  const auto made = snapshot_of({{"a"}, {}});
  const auto& snapshot = *made;
  EXPECT_EQ(snapshot.pool_for(""), snapshot.pools[0].get());
}

TEST(Snapshot, LetsAPoolThatNamesNoModelServeThemAll) {
  const auto made = snapshot_of({{"a"}, {}});
  const auto& snapshot = *made;
  EXPECT_EQ(snapshot.pool_for("b"), snapshot.pools[1].get());
}

TEST(Snapshot, NamesTheModelsInTheOrderOfTheFile) {
  EXPECT_EQ(snapshot_of({{"b", "a"}, {}, {"c"}})->known_models(), "b, a, c");
  EXPECT_EQ(snapshot_of({{}})->known_models(), "");
}

/// The members that a change may name, each as something that tells whether it is the same object. A new member of Snapshot
/// does not compile here until it is listed.
std::vector<std::string> objects_of(const Snapshot& snapshot) {
  const auto& [keys, settings, server_tls, pools, shadows, all_pools, leaving, leaving_pools] = snapshot;
  static_cast<void>(all_pools);  // It follows from pools and shadows.
  const auto addresses = [](const auto& list, const auto& address_of) {
    std::ostringstream text;
    for (const auto& one : list) text << address_of(one) << ' ';
    return text.str();
  };
  const auto itself = [](const auto& one) { return static_cast<const void*>(one.get()); };
  return {addresses(std::array{keys}, itself),
          settings.log.instance,
          addresses(std::array{server_tls}, itself),
          addresses(pools, itself),
          addresses(shadows, itself),
          addresses(leaving, [](const LeavingReplica& one) { return static_cast<const void*>(one.replica.get()); }),
          addresses(leaving_pools, itself)};
}

// A snapshot that was put together member by member once lost clients' keys and TLS.
TEST(Snapshot, KeepsEveryMemberThatAChangeDoesNotName) {
  using Change = std::function<void(Snapshot&)>;
  const auto key = [](Snapshot& next) {
    next.settings.server.keys = std::vector<config::ClientKey>(1);
    next.keys = std::make_shared<const keys::ClientKeys>(next.settings.server.keys, nullptr);
  };
  const auto pool_with_replica = [] {
    auto pool = std::make_shared<PoolRuntime>();
    pool->replicas.push_back(std::make_shared<Replica>());
    return pool;
  };
  const auto shadow = [&] {
    auto one = std::make_shared<ShadowRuntime>();
    one->pool = pool_with_replica();
    return one;
  };
  // In the order of objects_of(). Server TLS comes with its settings, and is covered with the keys.
  const std::vector<std::pair<std::size_t, Change>> changes{
      {0, key},
      {1, [](Snapshot& next) { next.settings.log.instance += "x"; }},
      {3, [&](Snapshot& next) { next.pools.push_back(pool_with_replica()); }},
      {4, [&](Snapshot& next) { next.shadows.push_back(shadow()); }},
      {5, [](Snapshot& next) { next.leaving.push_back({nullptr, std::make_shared<Replica>(), {}}); }},
      {6, [&](Snapshot& next) { next.leaving_pools.push_back(pool_with_replica()); }}};
  auto snapshot = Snapshot::changed(nullptr, [](Snapshot&) {});
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    const auto& [names, change] = changes[random() % changes.size()];
    const auto before = objects_of(*snapshot);
    snapshot = Snapshot::changed(snapshot.get(), change);
    const auto after = objects_of(*snapshot);
    for (std::size_t member = 0; member < before.size(); ++member)
      EXPECT_EQ(before[member] == after[member], member != names) << "member " << member << ", change of " << names;
    EXPECT_EQ(snapshot->all_pools.size(), snapshot->pools.size() + snapshot->shadows.size());
  }
}

}  // namespace
}  // namespace weir::proxy::fleet

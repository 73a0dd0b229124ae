#include "proxy/fleet/snapshot.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace weir::proxy::fleet

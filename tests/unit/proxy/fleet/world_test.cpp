#include "proxy/fleet/world.hpp"

#include <gtest/gtest.h>

namespace weir::proxy::fleet {
namespace {

std::shared_ptr<const World> snapshot_of(const std::vector<std::vector<std::string>>& models_of_pools) {
  return World::changed(nullptr, [&](World& next) {
    for (const auto& models : models_of_pools) {
      auto pool = std::make_unique<PoolRuntime>();
      pool->settings.models = models;
      next.pools.push_back(std::move(pool));
    }
  });
}

TEST(World, TakesTheFirstPoolThatServesTheModel) {
  const auto snapshot = snapshot_of({{"a", "b"}, {"b", "c"}});
  const auto& world = *snapshot;
  EXPECT_EQ(world.pool_for("a"), world.pools[0].get());
  EXPECT_EQ(world.pool_for("b"), world.pools[0].get());
  EXPECT_EQ(world.pool_for("c"), world.pools[1].get());
  EXPECT_EQ(world.pool_for("d"), nullptr);
  EXPECT_EQ(snapshot_of({})->pool_for("a"), nullptr);
}

TEST(World, TakesTheFirstPoolWhereARequestNamesNoModel) {
  const auto snapshot = snapshot_of({{"a"}, {}});
  const auto& world = *snapshot;
  EXPECT_EQ(world.pool_for(""), world.pools[0].get());
}

TEST(World, LetsAPoolThatNamesNoModelServeThemAll) {
  const auto snapshot = snapshot_of({{"a"}, {}});
  const auto& world = *snapshot;
  EXPECT_EQ(world.pool_for("b"), world.pools[1].get());
}

TEST(World, NamesTheModelsInTheOrderOfTheFile) {
  EXPECT_EQ(snapshot_of({{"b", "a"}, {}, {"c"}})->known_models(), "b, a, c");
  EXPECT_EQ(snapshot_of({{}})->known_models(), "");
}

}  // namespace
}  // namespace weir::proxy::fleet

#include "proxy/fleet/world.hpp"

#include <gtest/gtest.h>

namespace weir::proxy::fleet {
namespace {

World world_of(const std::vector<std::vector<std::string>>& models_of_pools) {
  World world;
  for (const auto& models : models_of_pools) {
    auto pool = std::make_unique<PoolRuntime>();
    pool->settings.models = models;
    world.pools.push_back(std::move(pool));
  }
  return world;
}

TEST(World, TakesTheFirstPoolThatServesTheModel) {
  const auto world = world_of({{"a", "b"}, {"b", "c"}});
  EXPECT_EQ(world.pool_for("a"), world.pools[0].get());
  EXPECT_EQ(world.pool_for("b"), world.pools[0].get());
  EXPECT_EQ(world.pool_for("c"), world.pools[1].get());
  EXPECT_EQ(world.pool_for("d"), nullptr);
  EXPECT_EQ(world_of({}).pool_for("a"), nullptr);
}

TEST(World, TakesTheFirstPoolWhereARequestNamesNoModel) {
  const auto world = world_of({{"a"}, {}});
  EXPECT_EQ(world.pool_for(""), world.pools[0].get());
}

TEST(World, LetsAPoolThatNamesNoModelServeThemAll) {
  const auto world = world_of({{"a"}, {}});
  EXPECT_EQ(world.pool_for("b"), world.pools[1].get());
}

TEST(World, NamesTheModelsInTheOrderOfTheFile) {
  EXPECT_EQ(world_of({{"b", "a"}, {}, {"c"}}).known_models(), "b, a, c");
  EXPECT_EQ(world_of({{}}).known_models(), "");
}

}  // namespace
}  // namespace weir::proxy::fleet

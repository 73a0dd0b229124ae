#include "proxy/fleet/snapshot.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
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

TEST(Snapshot, TakesTheFirstPoolThatServesTheModelAndTheOneThatTakesAnyWhereNoneIsNamed) {
  const struct {
    std::vector<std::vector<std::string>> pools;  ///< The models that each names; one that names none serves all.
    std::string model;
    int pool;
  } rows[]{{{{"a", "b"}, {"b", "c"}}, "a", 0},
           {{{"a", "b"}, {"b", "c"}}, "b", 0},
           {{{"a", "b"}, {"b", "c"}}, "c", 1},
           {{{"a", "b"}, {"b", "c"}}, "d", -1},
           {{}, "a", -1},
           {{{"a"}, {}}, "", 1},
           {{{"a"}, {"b"}}, "", 0},
           {{{}}, "", 0},
           {{}, "", -1},
           {{{"a"}, {}}, "b", 1}};
  for (const auto& row : rows) {
    const auto snapshot = snapshot_of(row.pools);
    const auto* const wanted = row.pool < 0 ? nullptr : snapshot->pools[static_cast<std::size_t>(row.pool)].get();
    EXPECT_EQ(snapshot->pool_for(row.model), wanted) << row.model << " of " << row.pools.size();
  }
}

TEST(Snapshot, NeedsTheModelWhereSeveralPoolsHaveTheirOwn) {
  EXPECT_TRUE(snapshot_of({{"a"}, {"b"}})->needs_model());
  EXPECT_FALSE(snapshot_of({{"a"}, {}})->needs_model());
  EXPECT_FALSE(snapshot_of({{"a"}})->needs_model());
  EXPECT_FALSE(snapshot_of({})->needs_model());
}

TEST(Snapshot, NamesTheModelsInTheOrderOfTheFile) {
  EXPECT_EQ(snapshot_of({{"b", "a"}, {}, {"c"}})->known_models(), "b, a, c");
  EXPECT_EQ(snapshot_of({{}})->known_models(), "");
}

}  // namespace
}  // namespace weir::proxy::fleet

#include "proxy/fleet/world.hpp"

#include <algorithm>

namespace weir::proxy::fleet {

const PoolRuntime* World::pool_for(std::string_view model) const {
  for (const auto& pool : pools) {
    const auto& models = pool->settings.models;
    if (models.empty() || model.empty() || std::find(models.begin(), models.end(), model) != models.end())
      return pool.get();
  }
  return nullptr;
}

std::string World::known_models() const {
  std::string names;
  for (const auto& pool : pools)
    for (const auto& model : pool->settings.models) names.append(names.empty() ? "" : ", ").append(model);
  return names;
}

}  // namespace weir::proxy::fleet

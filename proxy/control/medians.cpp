#include "proxy/control/medians.hpp"

#include <vector>

#include "metrics/compare/sides/side.hpp"

namespace weir::proxy::control {

namespace mc = metrics::compare;

Medians::Medians(const History& history, metrics::Moment now) {
  std::map<std::pair<mc::samples::Names::Name, mc::samples::Names::Name>, std::vector<const mc::samples::Sample*>>
      by_replica;
  for (const auto* sample : history.samples_since(now - window)) {
    if (sample->drop_reason == 0) by_replica[{sample->pool, sample->replica}].push_back(sample);
  }
  for (const auto& [key, samples] : by_replica) {
    const auto quantiles = mc::sides::quantiles_of(samples);
    const auto& names = history.names();
    all_[{names.text(key.first), names.text(key.second)}] = {quantiles.ttft.p50, quantiles.tpot.p50};
  }
}

Medians::Of Medians::of(std::string_view pool, std::string_view replica) const {
  const auto found = all_.find({pool, replica});
  return found == all_.end() ? Of{} : found->second;
}

}  // namespace weir::proxy::control

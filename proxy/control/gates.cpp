#include "proxy/control/gates.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "metrics/compare/sides/selection.hpp"
#include "proxy/compare/reporting.hpp"
#include "proxy/control/live_comparison.hpp"
#include "proxy/control/shadow_api.hpp"

namespace weir::proxy::control {
namespace {

namespace mc = metrics::compare;
using mc::samples::Names;
using mc::samples::Sample;

std::function<Judged()> judging(std::shared_ptr<Names> names, std::vector<Sample> samples,
                                mc::comparison::Options options, const mc::pairs::Mirrored& mirrored,
                                mc::pairs::KvTokens kv_tokens) {
  return [names = std::move(names), samples = std::move(samples), options = std::move(options), mirrored,
          kv_tokens = std::move(kv_tokens)]() mutable {
    options.warm_up.mirrored = &mirrored;
    options.warm_up.kv_tokens = kv_tokens;
    Judged judged;
    judged.comparison = mc::comparison::compare(samples, *names, options);
    judged.gate = mc::comparison::gate_of(judged.comparison);
    return judged;
  };
}

/// The stable side under one name: its replicas may have several configurations.
std::string name_of_stable(const fleet::PoolRuntime& pool) {
  std::string name;
  for (const auto& replica : pool.replicas) {
    const auto& config = replica->settings.config;
    if (config == pool.rollout->candidate || config == name) continue;
    if (!name.empty()) return "stable";
    name = config;
  }
  return name.empty() ? "stable" : name;
}

}  // namespace

std::function<Judged()> gate_of_shadow(const fleet::ShadowRuntime& shadow, const fleet::Snapshot& snapshot,
                                       const History& history, std::string_view slo) {
  const auto names = std::make_shared<Names>(history.names());
  auto options = options_of(shadow, snapshot, history, *names);
  if (const auto found = std::ranges::find(snapshot.settings.slos, slo, &config::Slo::name);
      found != snapshot.settings.slos.end())
    options.slo = *found;
  const auto pool = names->of(shadow.settings.of);
  std::vector<Sample> samples;
  for (const auto& sample : history.samples()) {
    if (!history.counts(sample)) continue;
    const bool of_a_shadow = sample.role == metrics::Role::shadow;
    if (of_a_shadow ? options.a.holds(sample) || options.b.holds(sample) : sample.pool == pool)
      samples.push_back(sample);
  }
  auto kv_tokens = compare::kv_tokens_of(kv_tokens_of_shadows(snapshot), *names);
  return judging(names, std::move(samples), std::move(options), history.mirrored(), std::move(kv_tokens));
}

std::function<Judged()> gate_of_split(const fleet::PoolRuntime& pool, const fleet::Snapshot& snapshot,
                                      const History& history, metrics::Moment since) {
  const auto slo = std::ranges::find(snapshot.settings.slos, pool.rollout->slo, &config::Slo::name);
  const balancer::rollout::SplitSides sides{pool.settings.name, pool.rollout->candidate, name_of_stable(pool),
                                            slo == snapshot.settings.slos.end() ? std::nullopt : std::optional(*slo)};
  return [gate = balancer::rollout::SplitGate(std::make_shared<Names>(history.names()), history.samples_since(since),
                                              sides)] { return gate.judge(); };
}

}  // namespace weir::proxy::control

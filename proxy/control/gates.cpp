#include "proxy/control/gates.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "balancer/rollout/evidence.hpp"
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
    judged.gate = mc::comparison::gate_of(judged.comparison, mc::comparison::SplitFaults::counted_elsewhere);
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

/// In a step of equal sides the evidence ever reaches it with a probability of 1 in 400 at most.
constexpr double empty_evidence = 400;

/// Adds what no pair tells of a split: whether the candidate's answers are empty more often.
std::function<Judged()> with_empty_answers(std::function<Judged()> judge, balancer::rollout::Counts empty,
                                           double share) {
  return [judge = std::move(judge), empty, share] {
    Judged judged = judge();
    if (empty.candidate_bad < 2 || balancer::rollout::evidence(empty, share) < empty_evidence) return judged;
    judged.gate.word = mc::comparison::Gate::worse;
    judged.gate.worse.push_back("empty: " + std::to_string(empty.candidate_bad) + " of " +
                                std::to_string(empty.candidate) + " of the candidate's answers are empty, " +
                                std::to_string(empty.stable_bad) + " of " + std::to_string(empty.stable) +
                                " of the others'");
    return judged;
  };
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
  const auto names = std::make_shared<Names>(history.names());
  const auto of = names->of(pool.settings.name), candidate = names->of(pool.rollout->candidate);
  const auto stable = names->of(name_of_stable(pool));
  std::vector<Sample> samples;
  balancer::rollout::Counts empty;
  for (const auto* const sample : history.samples_since(since)) {
    if (sample->role != metrics::Role::primary || sample->pool != of || sample->config == 0) continue;
    if (sample->served) {
      const bool is_empty = sample->outcome == metrics::Outcome::ok_empty;
      empty += sample->config == candidate ? balancer::rollout::Counts{1, is_empty, 0, 0}
                                           : balancer::rollout::Counts{0, 0, 1, is_empty};
    }
    samples.push_back(*sample);
    if (sample->config != candidate) samples.back().config = stable;
  }
  mc::comparison::Options options;
  options.histories = history.noise();
  options.a = {mc::sides::By::config, stable, metrics::Role::primary};
  options.b = {mc::sides::By::config, candidate, metrics::Role::primary};
  const auto slo = std::ranges::find(snapshot.settings.slos, pool.rollout->slo, &config::Slo::name);
  if (slo != snapshot.settings.slos.end()) options.slo = *slo;
  return with_empty_answers(judging(names, std::move(samples), std::move(options), {}, nullptr), empty,
                            pool.balancer->split().share.value_or(0));
}

}  // namespace weir::proxy::control

#include "proxy/shadows/gates.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "proxy/compare/reporting.hpp"
#include "proxy/events/events.hpp"

namespace weir::proxy::shadows {
namespace {

namespace mc = metrics::compare;

/// Returns the shadow of the same primary that runs the primary's own configuration; null if there is none, or if it is
/// this one.
const fleet::ShadowRuntime* control_of(const fleet::ShadowRuntime& shadow, const fleet::Snapshot& snapshot) {
  const auto& settings = shadow.settings;
  if (settings.control || settings.twin.empty()) return nullptr;
  const auto found = std::ranges::find_if(snapshot.shadows, [&](const auto& other) {
    const auto& one = other->settings;
    return one.control && one.of == settings.of && one.twin == settings.twin && is_on(*other) && has_begun(*other);
  });
  return found == snapshot.shadows.end() ? nullptr : found->get();
}

mc::sides::Selection side_of(const fleet::ShadowRuntime& shadow, mc::samples::Names& names) {
  return {mc::sides::By::shadow, names.of(shadow.settings.name), metrics::Role::shadow};
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

const fleet::ShadowRuntime* shadow_of(const fleet::Snapshot& snapshot, std::string_view name) {
  for (const auto& one : snapshot.shadows)
    if (one->settings.name == name) return one.get();
  return nullptr;
}

bool is_on(const fleet::ShadowRuntime& shadow) { return shadow.state->on.load(std::memory_order_relaxed); }

bool has_begun(const fleet::ShadowRuntime& shadow) { return shadow.state->began.load() != metrics::Moment::max(); }

mc::comparison::Options options_of(const fleet::ShadowRuntime& shadow, const fleet::Snapshot& snapshot,
                                   const History& history, mc::samples::Names& names) {
  const auto& settings = shadow.settings;
  const auto* const control = control_of(shadow, snapshot);
  mc::comparison::Options options;
  options.tables = history.tables();
  options.lost = history.lost();
  options.b = side_of(shadow, names);
  if (control != nullptr)
    options.a = side_of(*control, names);
  else if (!settings.twin.empty())
    options.a = {mc::sides::By::replica, names.of(settings.twin), metrics::Role::primary};
  else
    options.a = {mc::sides::By::role, 0, metrics::Role::primary};
  if (settings.twin.empty()) options.same_load = false;
  const auto slo = std::ranges::find(snapshot.settings.slos, settings.of, &config::Slo::pool);
  if (slo != snapshot.settings.slos.end()) options.slo = *slo;
  return options;
}

bool switch_shadow(const fleet::ShadowRuntime& shadow, bool on, History& history, metrics::Moment now) {
  auto& state = *shadow.state;
  if (state.on.load() == on) return false;
  if (on) {
    state.began = metrics::Moment::max();
    state.finished = 0;
    history.begin_anew(shadow.settings.name, now);
  }
  state.on = on;
  const auto& name = shadow.settings.name;
  events::info(events::What::shadow, name, "shadow '{}' is {}", name, on ? "on" : "off");
  return true;
}

void begin_anew(const fleet::Snapshot& before, const fleet::Snapshot& after, History& history, metrics::Moment now) {
  for (const auto& shadow : after.shadows) {
    const bool goes_on =
        std::ranges::any_of(before.shadows, [&](const auto& one) { return one->state == shadow->state; });
    if (!goes_on) history.begin_anew(shadow->settings.name, now);
  }
}

std::map<std::string, std::uint64_t, std::less<>> kv_tokens_of_shadows(const fleet::Snapshot& snapshot) {
  std::map<std::string, std::uint64_t, std::less<>> known;
  for (const auto& shadow : snapshot.shadows) {
    for (const auto& replica : shadow->settings.replicas)
      if (replica.expand && replica.kv_tokens) known[replica.config] = *replica.kv_tokens;
    for (const auto& replica : shadow->pool->replicas)
      if (const auto tokens = fleet::kv_tokens_of(replica->settings, *replica->state))
        known[replica->settings.name] = *tokens;
  }
  return known;
}

std::function<Judged()> gate_of_shadow(const fleet::ShadowRuntime& shadow, const fleet::Snapshot& snapshot,
                                       const History& history, std::string_view slo) {
  const auto names = std::make_shared<mc::samples::Names>(history.names());
  auto options = options_of(shadow, snapshot, history, *names);
  if (const auto found = std::ranges::find(snapshot.settings.slos, slo, &config::Slo::name);
      found != snapshot.settings.slos.end())
    options.slo = *found;
  const auto pool = names->of(shadow.settings.of);
  std::vector<mc::samples::Sample> samples;
  for (const auto& sample : history.samples()) {
    if (!history.counts(sample)) continue;
    const bool of_a_shadow = sample.role == metrics::Role::shadow;
    if (of_a_shadow ? options.a.holds(sample) || options.b.holds(sample) : sample.pool == pool)
      samples.push_back(sample);
  }
  options.warm_up.kv_tokens = compare::kv_tokens_of(kv_tokens_of_shadows(snapshot), *names);
  return [names, samples = std::move(samples), options = std::move(options), mirrored = history.mirrored()]() mutable {
    options.warm_up.mirrored = &mirrored;
    Judged judged;
    judged.comparison = mc::comparison::compare(samples, *names, options);
    judged.gate = mc::comparison::gate_of(judged.comparison);
    return judged;
  };
}

std::function<Judged()> gate_of_split(const fleet::PoolRuntime& pool, const fleet::Snapshot& snapshot,
                                      const History& history, metrics::Moment since) {
  const auto slo = std::ranges::find(snapshot.settings.slos, pool.rollout->slo, &config::Slo::name);
  const balancer::rollout::SplitSides sides{pool.settings.name, pool.rollout->candidate, name_of_stable(pool),
                                            slo == snapshot.settings.slos.end() ? std::nullopt : std::optional(*slo)};
  return [gate = balancer::rollout::SplitGate(std::make_shared<mc::samples::Names>(history.names()),
                                              history.samples_since(since), sides)] { return gate.judge(); };
}

}  // namespace weir::proxy::shadows

#include "proxy/shadows/live_comparison.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "proxy/compare/reporting.hpp"
#include "proxy/events/events.hpp"

namespace weir::proxy::shadows {
namespace {

namespace mc = metrics::compare;
using Effects = std::vector<metrics::series::ComparisonGauges::Effect>;
using Faults = std::vector<metrics::series::ComparisonGauges::Fault>;

/// Latencies under different loads, or with a side that was spared requests, and figures of unlike tokens are no
/// figures to look at.
bool forbidden(const mc::comparison::Verdict& verdict) {
  using enum mc::comparison::Bar;
  return verdict.bar == load_differs || verdict.bar == spared_load || verdict.bar == other_tokens;
}

Effects effects_of(const mc::comparison::Comparison& comparison) {
  Effects effects;
  for (const auto& verdict : comparison.verdicts) {
    if (!verdict.estimate || forbidden(verdict)) continue;
    auto& effect = effects.emplace_back();
    effect.metric = mc::statistics::name_of(verdict.figure);
    effect.estimate = *verdict.estimate;
    if (verdict.interval) effect.interval.emplace(verdict.interval->low, verdict.interval->high);
  }
  return effects;
}

/// Leaves out what no pair tells.
Faults faults_of(const mc::comparison::Comparison& comparison) {
  Faults faults;
  for (const auto& one : comparison.faults) {
    if (one.pairs.pairs == 0) continue;
    faults.push_back({mc::pairs::name_of(one.fault), one.pairs.only_b, one.pairs.only_a, one.more_in_b});
  }
  return faults;
}

live::ComparisonNow row_of(const mc::comparison::Comparison& comparison, live::Wall made) {
  live::ComparisonNow row;
  row.a = comparison.a;
  row.b = comparison.b;
  row.state = mc::comparison::name_of(comparison.state);
  row.answers = mc::pairs::name_of(comparison.answers.word);
  row.pairs = comparison.pairs;
  row.warming = comparison.warming;
  row.lost = comparison.lost;
  row.made = made;
  for (const auto& verdict : comparison.verdicts) {
    if (forbidden(verdict)) continue;
    auto& metric = row.metrics.emplace_back();
    metric.metric = mc::statistics::name_of(verdict.figure);
    metric.finding = mc::statistics::name_of(verdict.finding);
    metric.count = verdict.count;
    metric.value_a = verdict.value_a;
    metric.value_b = verdict.value_b;
    metric.estimate = verdict.estimate;
    if (verdict.interval) {
      metric.low = verdict.interval->low;
      metric.high = verdict.interval->high;
    }
    metric.needs_seconds = verdict.needs_s;
    metric.margin = mc::statistics::shown(verdict.figure, verdict.effect.margin.high);
  }
  return row;
}

using TableOf = std::shared_ptr<const mc::table::Table>;

/// Returns the table of these sides and this objective; null if there is none.
TableOf table_of(const std::vector<TableOf>& tables, const mc::comparison::Options& options,
                 const std::optional<config::Slo>& slo) {
  const auto found = std::ranges::find_if(
      tables, [&](const TableOf& table) { return table->counts(slo) && table->suits(options.a, options.b, {}); });
  return found == tables.end() ? nullptr : *found;
}

}  // namespace

std::vector<LiveComparison::Question> LiveComparison::questions(const fleet::Snapshot& snapshot,
                                                                mc::samples::Names& names) const {
  std::vector<Question> all;
  for (const auto& shadow : snapshot.shadows) {
    if (!has_begun(*shadow)) continue;
    std::vector<std::optional<config::Slo>> slos;
    for (const auto& slo : snapshot.settings.slos)
      if (slo.pool == shadow->settings.of) slos.emplace_back(slo);
    if (slos.empty()) slos.emplace_back();
    all.push_back({shadow->state.get(), is_on(*shadow), shadow->state->began.load(),
                   options_of(*shadow, snapshot, history_, names), std::move(slos)});
  }
  return all;
}

std::vector<mc::samples::Sample> LiveComparison::samples_of(const fleet::Snapshot& snapshot,
                                                            mc::samples::Names& names) const {
  std::set<mc::samples::Names::Name> pools, shadows;
  for (const auto& shadow : snapshot.shadows) {
    if (!has_begun(*shadow)) continue;
    pools.insert(names.of(shadow->settings.of));
    shadows.insert(names.of(shadow->settings.name));
  }
  std::vector<mc::samples::Sample> kept;
  kept.reserve(history_.samples().size());
  for (const auto& sample : history_.samples()) {
    const bool wanted =
        sample.role == metrics::Role::shadow ? shadows.contains(sample.shadow) : pools.contains(sample.pool);
    if (wanted && history_.counts(sample)) kept.push_back(sample);
  }
  return kept;
}

void LiveComparison::tick(const fleet::Snapshot& snapshot, metrics::Moment now) {
  if (under_way_ || now < next_ || slow_.is_full()) return;
  const auto leaving_before_us = history_.leaving_before_us();
  const bool keeps = leaving_before_us || !history_.tables().empty();
  const auto concerns = [&](const auto& shadow) { return has_begun(*shadow) && (keeps || is_on(*shadow)); };
  if (std::ranges::none_of(snapshot.shadows, concerns)) return history_.keep_tables({}, history_.times_begun_anew());
  next_ = now + every;
  const auto names = std::make_shared<mc::samples::Names>(history_.names());
  auto asked = questions(snapshot, *names);
  auto samples = samples_of(snapshot, *names);
  auto kv_tokens = compare::kv_tokens_of(kv_tokens_of_shadows(snapshot), *names);
  auto compare_all = [made = std::chrono::system_clock::now(), names, kv_tokens = std::move(kv_tokens),
                      mirrored = history_.mirrored(), asked = std::move(asked), samples = std::move(samples),
                      tables = history_.tables(), leaving_before_us] {
    Answer answer;
    for (const auto& question : asked) {
      auto options = question.options;
      options.warm_up.mirrored = &mirrored;
      options.warm_up.kv_tokens = kv_tokens;
      if (question.is_on) {
        const auto comparison = mc::comparison::compare(samples, *names, options);
        answer.found[question.state] = {question.began, effects_of(comparison), faults_of(comparison),
                                        comparison.answers.word, row_of(comparison, made)};
      }
      for (const auto& slo : question.slos) {
        auto table = table_of(tables, options, slo);
        if (leaving_before_us)
          table = with_leaving(table, samples, *names, options.a, options.b, options.warm_up, slo, *leaving_before_us);
        if (table) answer.tables.push_back(std::move(table));
      }
    }
    return answer;
  };
  const auto times = history_.times_begun_anew();
  slow_.make(std::move(compare_all), [this, times](const std::shared_ptr<Answer>& answer) {
    under_way_ = false;
    if (!answer) return;
    found_ = std::move(answer->found);
    history_.keep_tables(std::move(answer->tables), times);
  });
  under_way_ = true;
}

std::vector<live::ComparisonNow> LiveComparison::latest(const fleet::Snapshot& snapshot) const {
  std::vector<live::ComparisonNow> all;
  for (const auto& shadow : snapshot.shadows) {
    const auto found = found_.find(shadow->state.get());
    if (!is_on(*shadow) || found == found_.end() || found->second.began != shadow->state->began.load()) continue;
    all.push_back(found->second.row);
    all.back().shadow = shadow->settings.name;
  }
  return all;
}

std::vector<metrics::series::ComparisonGauges> LiveComparison::gauges(const fleet::Snapshot& snapshot) const {
  std::vector<metrics::series::ComparisonGauges> all;
  for (const auto& shadow : snapshot.shadows) {
    if (!is_on(*shadow)) continue;
    auto& gauges = all.emplace_back();
    gauges.shadow = shadow->settings.name;
    const auto found = found_.find(shadow->state.get());
    auto answers = mc::pairs::Alike::unknown;
    if (found != found_.end() && found->second.began == shadow->state->began.load()) {
      gauges.effects = found->second.effects;
      gauges.faults = found->second.faults;
      answers = found->second.answers;
    }
    for (std::size_t i = 0; i < mc::pairs::alike_names.size(); ++i)
      gauges.answers.emplace_back(mc::pairs::alike_names[i], answers == static_cast<mc::pairs::Alike>(i));
    const bool any = std::ranges::any_of(gauges.effects, [](const auto& one) { return one.interval.has_value(); });
    gauges.states = {{mc::comparison::name_of(mc::comparison::State::too_few), !any},
                     {mc::comparison::name_of(mc::comparison::State::running), any}};
  }
  return all;
}

namespace {

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

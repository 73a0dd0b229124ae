#include "proxy/shadows/live_comparison.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "proxy/compare/reporting.hpp"
#include "proxy/shadows/gates.hpp"

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

}  // namespace weir::proxy::shadows

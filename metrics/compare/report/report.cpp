#include "metrics/compare/report/report.hpp"

#include <algorithm>
#include <limits>

#include "metrics/compare/sides/side_choice.hpp"

namespace weir::metrics::compare::report {
namespace {

/// Returns the window of the comparison; all that there is if the comparison has none.
statistics::Window window_of(const comparison::Comparison& comparison, std::span<const samples::Sample> samples) {
  if (comparison.window.to_us > comparison.window.from_us || samples.empty()) return comparison.described();
  const auto [first, last] = std::ranges::minmax_element(samples, {}, &samples::Sample::dispatched_us);
  return {first->dispatched_us, last->dispatched_us + 1};
}

/// Sides of the two selections come first, a's before b's, and primaries before shadows.
std::vector<sides::SideKey> in_order(std::vector<sides::SideKey> sides, const comparison::Options& options) {
  const auto place = [&](const sides::SideKey& side) {
    const auto is = [&](const sides::Selection& selection) {
      return selection.by == sides::By::role ? selection.role == side.role : selection.name == side.name;
    };
    return is(options.a) ? 0 : is(options.b) ? 1 : 2;
  };
  std::ranges::stable_sort(sides, {}, place);
  return sides;
}

/// True if the comparison is about this side.
bool is_compared(const sides::SideKey& side, std::span<const samples::Sample* const> held,
                 const comparison::Options& options, const comparison::Comparison& comparison) {
  const auto is = [&](const sides::Selection& selection, Role role) {
    if (side.role != role) return false;
    return std::ranges::any_of(held, [&](const samples::Sample* sample) { return selection.holds(*sample); });
  };
  return is(options.a, comparison.side_a.role) || is(options.b, comparison.side_b.role);
}

/// Returns the name of the [[shadow]] that the samples are of; "" if there are several.
std::string_view shadow_of(std::span<const samples::Sample* const> held, const samples::Names& names) {
  samples::Names::Name found = 0;
  for (const auto* sample : held) {
    if (found != 0 && sample->shadow != found) return {};
    found = sample->shadow;
  }
  return names.text(found);
}

/// Returns the window in which a side is described. One that did not run beside the other has its own.
statistics::Window window_of(const comparison::Comparison& comparison, const statistics::Window& common,
                             std::span<const samples::Sample* const> held) {
  if (!comparison.apart || held.empty()) return common;
  const auto [first, last] = std::ranges::minmax(held, {}, &samples::Sample::dispatched_us);
  return {std::max(common.from_us, first->dispatched_us), std::min(common.to_us, last->dispatched_us + 1)};
}

std::optional<Cheapest> cheapest_of(std::span<const sides::Side> sides, const std::optional<config::Slo>& slo) {
  if (!slo || !(slo->ttft_client || slo->ttft) || !slo->tpot || slo->tpot->count() <= 0) return std::nullopt;
  if (std::ranges::none_of(sides, [](const sides::Side& side) { return side.cost_per_hour.has_value(); }))
    return std::nullopt;
  Cheapest cheapest;
  cheapest.most_ttft = (slo->ttft ? *slo->ttft : *slo->ttft_client).count();
  cheapest.least_speed = 1 / slo->tpot->count();
  for (const auto& side : sides) {
    if (!side.cost_per_hour) continue;
    const double per_second = *side.cost_per_hour / 3600 / static_cast<double>(side.replicas.size());
    for (const auto& point : side.points) {
      // A single minute is no measurement of a load.
      if (point.minutes < 2 || !point.ttft || !point.tokens_per_second_per_user) continue;
      if (point.ttft->value > cheapest.most_ttft || point.tokens_per_second_per_user->value < cheapest.least_speed ||
          point.output_tokens_per_second.value <= 0) {
        continue;
      }
      const double cost = per_second / point.output_tokens_per_second.value * 1e6;
      if (!cheapest.found || cost < cheapest.found->cost_per_million_output_tokens)
        cheapest.found = Cheapest::Found{side.name, point, cost};
    }
  }
  return cheapest;
}

}  // namespace

Report make_report(std::span<const samples::Sample> samples, const samples::Names& names,
                   const ReportOptions& options) {
  Report report;
  report.by = options.by;
  report.slo = options.comparison.slo;
  comparison::Options whole = options.comparison;
  whole.bins = 40;  // About what a chart on a page can show apart.
  auto compared_pairs = comparison::compare_pairs(samples, names, whole);
  sides::SideOptions described;
  described.window = window_of(compared_pairs.comparison, samples);
  described.objective.slo = report.slo;
  // A shadow has no client, so what is mirrored is judged from the moment it was sent.
  described.objective.since =
      compared_pairs.comparison.mode == pairs::Mode::split ? samples::Since::arrival : samples::Since::dispatch;
  described.cost_per_hour = options.cost_per_hour;

  report.all_sides = options.all_sides;
  const statistics::Window common = described.window;
  const auto sides = in_order(sides_of(samples, names, options.by), options.comparison);
  auto held = samples_of(sides, samples, options.by);
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const auto shadow = shadow_of(held[i], names);
    const bool compared = is_compared(sides[i], held[i], options.comparison, compared_pairs.comparison);
    std::erase_if(held[i], [&](const samples::Sample* sample) { return !common.holds(sample->dispatched_us); });
    described.window = window_of(compared_pairs.comparison, common, held[i]);
    auto side = describe(sides[i].text(names, options.by), sides[i].role, held[i], names, described);
    side.compared = compared;
    const bool alone = std::ranges::count(sides, sides[i].name, &sides::SideKey::name) == 1;
    const bool named = sides[i].role == Role::shadow && !alone && options.by != sides::By::role;
    side.label = named ? comparison::shadow_label(side.name, shadow) : side.name;
    report.sides.push_back(std::move(side));
  }
  const double min_block_s = options.comparison.min_block_s;
  report.by_prompt_size = strata_of(comparison::StratifyBy::prompt_size, compared_pairs, min_block_s, held);
  report.by_turn = strata_of(comparison::StratifyBy::turn, compared_pairs, min_block_s, held);
  report.comparison = std::move(compared_pairs.comparison);
  report.cheapest = cheapest_of(report.sides, report.slo);
  report.notes = report.comparison.notes;
  for (const auto& [strata, what] : {std::pair(&report.by_prompt_size, "size of the prompt"),
                                     std::pair(&report.by_turn, "turn of the conversation")}) {
    if (!depends_on_the_mix(*strata)) continue;
    report.notes.push_back(
        {"depends_on_the_mix", "It depends on the mix: by " + std::string(what) +
                                   ", one side is better in some requests and worse in others. Look at the table."});
  }
  return report;
}

CandidatesReport together(std::vector<Report> reports) {
  CandidatesReport all{std::move(reports), {}};
  std::vector<statistics::Effect> family;
  for (const Report& report : all.reports) {
    for (const auto& verdict : report.comparison.verdicts) {
      if (!is_tail(verdict.metric)) family.push_back(effect_of(verdict));
    }
  }
  const auto decisions = statistics::decide(family);
  std::size_t next = 0;
  for (const Report& report : all.reports) {
    CandidatesReport::Row row;
    comparison::Comparison corrected = report.comparison;
    for (auto& verdict : corrected.verdicts) {
      if (is_tail(verdict.metric)) continue;
      statistics::Decision decision = decisions[next++];
      if (verdict.withheld) decision.finding = statistics::Finding::inconclusive;
      verdict.finding = decision.finding;
      row.metrics.push_back(verdict.metric);
      row.decisions.push_back(decision);
    }
    for (auto& fault : corrected.faults) fault.finding = fault.judge(static_cast<unsigned>(all.reports.size()));
    row.gate = gate_of(corrected);
    all.rows.push_back(std::move(row));
  }
  return all;
}

}  // namespace weir::metrics::compare::report

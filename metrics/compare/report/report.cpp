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

}  // namespace

Report make_report(std::span<const samples::Sample> samples, const samples::Names& names,
                   const ReportOptions& options) {
  Report report;
  report.by = options.by;
  report.slo = options.comparison.slo;
  report.comparison = comparison::compare(samples, names, options.comparison);
  sides::SideOptions described;
  described.window = window_of(report.comparison, samples);
  described.objective.slo = report.slo;
  // A shadow has no client, so what is mirrored is judged from the moment it was sent.
  described.objective.since =
      report.comparison.mode == pairs::Mode::split ? samples::Since::arrival : samples::Since::dispatch;
  described.cost_per_hour = options.cost_per_hour;

  report.all_sides = options.all_sides;
  const statistics::Window common = described.window;
  const auto sides = in_order(sides_of(samples, names, options.by), options.comparison);
  auto held = samples_of(sides, samples, options.by);
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const auto shadow = shadow_of(held[i], names);
    const bool compared = is_compared(sides[i], held[i], options.comparison, report.comparison);
    std::erase_if(held[i], [&](const samples::Sample* sample) { return !common.holds(sample->dispatched_us); });
    described.window = window_of(report.comparison, common, held[i]);
    auto side = describe(sides[i].text(names, options.by), sides[i].role, held[i], names, described);
    side.compared = compared;
    const bool alone = std::ranges::count(sides, sides[i].name, &sides::SideKey::name) == 1;
    const bool named = sides[i].role == Role::shadow && !alone && options.by != sides::By::role;
    side.label = named ? comparison::shadow_label(side.name, shadow) : side.name;
    report.sides.push_back(std::move(side));
  }
  report.notes = report.comparison.notes;
  return report;
}

CandidatesReport together(std::vector<Report> reports) {
  CandidatesReport all{std::move(reports), {}};
  std::vector<statistics::Effect> family;
  for (const Report& report : all.reports)
    for (const auto& verdict : report.comparison.verdicts) family.push_back(verdict.effect);
  const auto decisions = statistics::decide(family);
  std::size_t next = 0;
  for (const Report& report : all.reports) {
    CandidatesReport::Row row{report.comparison, {}};
    for (auto& verdict : row.comparison.verdicts) {
      const auto& decision = decisions[next++];
      verdict.p = decision.p;
      verdict.held_back = decision.held_back;
      verdict.finding = finding_among(verdict, decision);
    }
    for (auto& fault : row.comparison.faults)
      fault.finding = finding_among(fault, static_cast<unsigned>(all.reports.size()));
    row.gate = gate_of(row.comparison);
    all.rows.push_back(std::move(row));
  }
  return all;
}

}  // namespace weir::metrics::compare::report
